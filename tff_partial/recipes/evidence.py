"""The plan of what is still to be run: for each claim its command and how long it takes.

Claims are ordered by what they cost, the cheapest first: runs that an earlier claim of the same
recipe needs too are counted once. Minutes are those of `--dry_run`, for three seeds.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Callable

from tff_partial import runtime
from tff_partial.recipes import catalog, claim_rules, estimate
from tff_partial.recipes import plan as recipe_plan
from tff_partial.recipes.claim_rules import Claim
from tff_partial.recipes.schema import Recipe
from tff_partial.report import ledger, markdown
from tff_partial.report.ledger import Finding

SEEDS = 3
# Analyses have no reduced settings.
ANALYSIS_SCALE = 0.1
INTRODUCTION = f"""# Evidence

What is still to be run for a verdict on each claim of [results.md](results.md#claims), the cheapest
first, and what is decided. Made by `make docs`. Minutes are those that `--dry_run` estimates for
{SEEDS} seeds on the machine that made this page ({os.cpu_count()} cores), without what an earlier
line has run; a start takes some seconds more. `<folder>` has the data of tensorflow-datasets."""

Minutes = Callable[[recipe_plan.Run], float]


@dataclasses.dataclass(frozen=True)
class Need:
    """What a claim needs: the rows of its recipe, and the minutes of each."""

    finding: Finding
    command: str
    minutes: dict[str, float]


def document(findings: Sequence[Finding], minutes: Minutes) -> str:
    """Return the plan as Markdown.

    Args:
      findings: The ledger.
      minutes: How long a run takes.
    """
    open_claims = [each for each in findings if each.verdict not in ledger.DECIDED]
    lines = []
    for need, cost in ordered([_need(finding, minutes) for finding in open_claims]):
        says = markdown.escape(need.finding.says)
        verdict = ledger.verdict_text(need.finding)
        lines.append(f"| {says} | {verdict} | {cost:.0f} | `{need.command}` |")
    heads = "| claim | verdict | minutes | command |\n|---|---|---|---|"
    decided = [
        f"- {markdown.escape(each.says)} ({each.recipe}): **{each.verdict}**"
        for each in findings
        if each.verdict in ledger.DECIDED
    ]
    parts = [INTRODUCTION, "## To do", "\n".join([heads, *lines]), "## Done", "\n".join(decided)]
    return "\n\n".join(parts) + "\n"


def ordered(needs: Sequence[Need]) -> list[tuple[Need, float]]:
    """Return the needs with what each costs beside those before it, the cheapest first."""
    left, done, result = list(needs), set[tuple[str, str]](), []

    def cost(need: Need) -> float:
        recipe = need.finding.recipe
        return sum(m for row, m in need.minutes.items() if (recipe, row) not in done)

    while left:
        need = min(left, key=cost)
        result.append((need, cost(need)))
        left.remove(need)
        done |= {(need.finding.recipe, row) for row in need.minutes}
    return result


def _need(finding: Finding, minutes: Minutes) -> Need:
    recipe = catalog.load(finding.recipe)
    claim = next(claim for claim in recipe.claims if claim.id == finding.id)
    rows = rows_of(claim)
    words = ["python run_experiment.py", f"--recipe={recipe.name}", *_flags(recipe)]
    words += [f"--only={','.join(rows)}", f"--seeds={SEEDS}", "--data_dir=<folder>"]
    return Need(finding, " ".join(words), {row: minutes(_run(recipe, row)) for row in rows})


def rows_of(claim: Claim) -> tuple[str, ...]:
    """Return the rows that a claim needs, its baseline among them."""
    baseline = [claim.baseline.row] if claim.baseline else []
    return tuple(dict.fromkeys([*claim_rules.parse(claim.rule).rows, *baseline]))


def _flags(recipe: Recipe) -> list[str]:
    if recipe.kind == "exact":
        return []
    return ["--reduced"] if recipe.kind == "runs" else [f"--scale={ANALYSIS_SCALE:g}"]


def _run(recipe: Recipe, row: str) -> recipe_plan.Run:
    is_reduced = recipe.kind == "runs"
    # The folder does not exist: what is finished is in `docs/runs`.
    given = {"data": "tfds", "output_dir": os.path.join(os.devnull, "evidence")}
    scale = 1.0 if is_reduced else ANALYSIS_SCALE
    options = recipe_plan.Options(recipe.name, scale, row, 1, given, is_reduced)
    return next(run for run in recipe_plan.create(options).runs if run.row.id == row)


def estimated() -> Minutes:
    """Return the estimate of `--dry_run` for all seeds; a model is timed once."""
    runtime.configure("in_process")
    timed: estimate.Timed = {}
    return lambda run: SEEDS * estimate.seconds(run, timed) / 60
