"""Verdicts on the papers' claims, computed from folders of results.

Every comparison of a rule (`claim_rules`) is computed for each seed, so that rows are paired: the
same seed has the same data and clients. The mean over seeds has a 95 % interval of Student's t. The
comparison holds if the whole interval is on the right side of its bound, does not hold if the whole
interval is on the other side, and is undecided otherwise. One seed has no interval: undecided. What
is computed exactly needs none.

If the baseline row has not reached a stated share of the paper's accuracy, nothing else is said.
Embedded data decide nothing. Where a recipe was run in several settings, the one nearest to the
paper's that decides counts.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

from tff_partial.recipes import catalog, claim_figures, claim_rules
from tff_partial.recipes.claim_figures import Figures
from tff_partial.recipes.claim_rules import Claim, Comparison
from tff_partial.recipes.schema import Recipe
from tff_partial.report import ledger
from tff_partial.report.ledger import DECIDED, FAILS, HOLDS, UNDECIDED, Estimate, Finding
from tff_partial.report.recipes import Section
from tff_partial.report.runs import Row
from tff_partial.results.schema import Metric

CONFIDENCE = 0.95


def of_sections(sections: Sequence[Section]) -> list[Finding]:
    """Return a finding for each claim of the recipes, those that were not run among them.

    Empty if the sections are of no recipe that has claims.
    """
    findings: list[Finding] = []
    for name in catalog.names():
        recipe = catalog.load(name)
        same = [section for section in sections if section.results.recipe == name]
        findings += [_nearest(recipe, claim, same) for claim in recipe.claims]
    was_run = any(finding.verdict != ledger.NOT_RUN for finding in findings)
    return findings if was_run else []


def _nearest(recipe: Recipe, claim: Claim, sections: Sequence[Section]) -> Finding:
    """Return the finding of the setting nearest to the paper's that decides, else that was run."""
    findings = [_finding(recipe, claim, each) for each in sorted(sections, key=_distance)]
    decided = [each for each in findings if each.verdict in DECIDED]
    was_run = [each for each in findings if each.verdict != ledger.NOT_RUN]
    return (decided or was_run or [_not_run(recipe, claim)])[0]


def _distance(section: Section) -> tuple[bool, bool, float]:
    return not section.is_papers_setting, not section.results.reduced, -(section.scale or 1.0)


def _not_run(recipe: Recipe, claim: Claim) -> Finding:
    finding = Finding(recipe.name, claim.id, claim.says, claim.where, ledger.NOT_RUN)
    rule = claim_rules.parse(claim.rule)
    if not rule.comparisons:
        return dataclasses.replace(finding, kind="exact", paper=len(recipe.rows))
    first = rule.comparisons[0]
    paper = claim_figures.of_paper(first, recipe, claim)
    metric = claim_figures.metric_of(recipe, claim)
    return dataclasses.replace(
        finding, kind=first.kind, quantity=_quantity(first, metric), paper=paper
    )


def _finding(recipe: Recipe, claim: Claim, section: Section) -> Finding:
    """Return what the runs of one setting say about a claim."""
    rows = {row.id: row for row in section.rows}
    setting = "exact" if recipe.kind == "exact" else section.setting
    finding = dataclasses.replace(_not_run(recipe, claim), setting=setting)
    rule = claim_rules.parse(claim.rule)
    if not rule.comparisons:
        return _counted_equal(finding, recipe, rows)
    metric = claim_figures.metric_of(recipe, claim)
    figures = claim_figures.by_seed(rule.comparisons, rows, metric)
    if not figures:
        return finding
    is_exact = recipe.kind == "exact"
    finding = dataclasses.replace(finding, seeds=0 if is_exact else len(figures))
    if claim.baseline:
        accuracy = claim_figures.accuracy_of(rows.get(claim.baseline.row), [*figures])
        needed = claim_figures.needed_accuracy(claim.baseline, recipe)
        if accuracy < needed:
            remark = f"{claim.baseline.row}: {accuracy:.1f} %, {needed:.1f} % are needed"
            return dataclasses.replace(finding, verdict=ledger.NOT_LEARNT, remark=remark)
    steps = [_step(comparison, figures, is_exact) for comparison in rule.comparisons]
    weakest = min(steps, key=lambda step: step.comparison.margin(step.found.mean))
    verdict = combine([step.verdict for step in steps])
    return dataclasses.replace(
        finding,
        verdict=verdict,
        kind=weakest.comparison.kind,
        quantity=_quantity(weakest.comparison, metric),
        ours=weakest.found,
        paper=claim_figures.of_paper(weakest.comparison, recipe, claim),
        remark=_why(verdict, finding.seeds, steps),
    )


@dataclasses.dataclass(frozen=True)
class _Step:
    """A comparison, our figure of it, and its verdict; rows that are only known from below."""

    comparison: Comparison
    found: Estimate
    at_least: tuple[str, ...]

    @property
    def verdict(self) -> str:
        return judge(self.comparison, self.found, self.at_least)


def _step(comparison: Comparison, figures: Mapping[int, Figures], is_exact: bool) -> _Step:
    values = [
        comparison.value({name: figure.value for name, figure in seed.items()})
        for seed in figures.values()
    ]
    found = estimate([value for value in values if value is not None] or [math.nan])
    if is_exact:
        found = Estimate(found.mean, found.mean, found.mean)
    censored = [n for n in comparison.names if any(seed[n].at_least for seed in figures.values())]
    return _Step(comparison, found, tuple(censored))


def _counted_equal(finding: Finding, recipe: Recipe, rows: Mapping[str, Row]) -> Finding:
    """Return whether all rows of an exact table are the paper's, and how many are."""
    texts = {row: str(run.summary.get("text")) for row in rows for run in rows[row].finished}
    if len(texts) < len(recipe.rows):
        return finding
    equal = sum(claim_figures.is_equal(texts[row.id], row.paper.text) for row in recipe.rows)
    verdict = HOLDS if equal == len(recipe.rows) else FAILS
    return dataclasses.replace(
        finding, verdict=verdict, quantity="equal rows", ours=Estimate(equal)
    )


def _quantity(comparison: Comparison, metric: Metric) -> str:
    """Return what a comparison compares, in words."""
    unit = f", {'points' if metric.unit == '%' else metric.unit}" if metric.unit else ""
    if comparison.divisor:
        return f"{' + '.join(comparison.rows)} / {comparison.divisor}"
    first, *others = comparison.rows.items()
    text = ("" if first[1] > 0 else "− ") + first[0]
    for row, coefficient in others:
        text += f" {'+' if coefficient > 0 else '−'} {row}"
    return text + (f", {metric.unit}" if not others and metric.unit else unit)


def _why(verdict: str, seeds: int, steps: Sequence[_Step]) -> str:
    """Return why a claim is undecided; empty if it is not."""
    if verdict != UNDECIDED:
        return ""
    if seeds == 1:
        return "one seed, no interval"
    missed = dict.fromkeys(row for step in steps for row in step.at_least)
    return f"target not reached by {', '.join(missed)}" if missed else ""


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean over seeds with its 95 % interval, if there are two or more.

    mean ± t(0.975, n - 1) * s / sqrt(n)
    """
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Estimate(mean)
    from scipy import stats

    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1))
    half = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(mean, mean - half, mean + half)


def judge(comparison: Comparison, found: Estimate, at_least: Sequence[str] = ()) -> str:
    """Return whether a comparison holds.

    Args:
      comparison: The comparison.
      found: The statistic over the seeds; an exact figure has `low` = `high`.
      at_least: Rows whose figure is only known to be at least this much, such as the rounds of a
        run that did not reach its target.
    """
    if found.low is None or found.high is None:
        return UNDECIDED
    margins = [comparison.margin(value) for value in (found.low, found.high)]
    helps = [comparison.raises(row) for row in at_least]
    if comparison.is_met(min(margins)) and all(helps):
        return HOLDS
    if not comparison.is_met(max(margins)) and not any(helps):
        return FAILS
    return UNDECIDED


def combine(verdicts: Sequence[str]) -> str:
    """Return the verdict of a chain: one step that does not hold is enough."""
    if FAILS in verdicts:
        return FAILS
    return UNDECIDED if UNDECIDED in verdicts else HOLDS
