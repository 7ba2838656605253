"""The ledger: for each claim of the papers, what our runs say about it."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import NamedTuple, Optional

from tff_partial.report import cells
from tff_partial.report.cells import Cell, Line, Table

HOLDS = "holds"
FAILS = "does not hold"
UNDECIDED = "undecided"
NOT_LEARNT = "baseline has not learnt"
NOT_RUN = "not run"
VERDICTS = (HOLDS, FAILS, UNDECIDED, NOT_LEARNT, NOT_RUN)
DECIDED = (HOLDS, FAILS)
# Folder of a paper's recipes -> what the paper calls its algorithm.
PAPERS = {
    "embracing": "EmbracingFL",
    "partial_averaging": "partial averaging",
    "fedumf": "FedUMF",
    "feddse": "FedDSE",
    "fedpmt": "FedPMT",
}
HEADS = ("claim", "where", "verdict", "compared", "ours [95 %]", "paper", "seeds", "setting")
CAPTION = "Claims of the papers, and what our runs say"


class Estimate(NamedTuple):
    """A figure with its interval; no interval with one seed, `low` = `high` if it is exact."""

    mean: float
    low: Optional[float] = None
    high: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Finding:
    """A claim and its verdict.

    Attributes:
      recipe: The recipe that tests it, such as `embracing/table3`.
      id: Its name within the recipe.
      says: What the paper says, in our words.
      where: Where the paper says it.
      verdict: One of `VERDICTS`.
      quantity: What is compared, such as `case5 − case1, points`.
      kind: `difference`, `ratio`, `value`, or `exact` for rows that are equal.
      ours: Our figure; None if there is none.
      paper: The paper's figure of the same quantity; None if it is not printed.
      seeds: How many seeds all rows have in common.
      setting: How far the setting is the paper's.
      remark: Why it is not decided, if it is not.
    """

    recipe: str
    id: str
    says: str
    where: str
    verdict: str
    quantity: str = ""
    kind: str = "difference"
    ours: Optional[Estimate] = None
    paper: Optional[float] = None
    seeds: int = 0
    setting: str = ""
    remark: str = ""

    @property
    def source(self) -> str:
        """The paper, by what it proposes."""
        folder = self.recipe.partition("/")[0]
        return PAPERS.get(folder, folder)

    @property
    def name(self) -> str:
        return f"{self.recipe}#{self.id}"


def counts(findings: Sequence[Finding]) -> str:
    """Return how many claims there are of each verdict, as a sentence."""
    numbers = collections.Counter(finding.verdict for finding in findings)
    words = (
        "hold",
        "do not hold",
        "are undecided",
        "have a baseline that has not learnt",
        "are not run",
    )
    pairs = zip(VERDICTS, words)
    parts = [f"{numbers[verdict]} {text}" for verdict, text in pairs if numbers[verdict]]
    return f"Of {len(findings)} claims of the papers, {', '.join(parts)}."


def verdict_of(findings: Sequence[Finding], recipe: str) -> str:
    """Return what the runs of a recipe say about its claims, in words; empty if it has none.

    Claims that were not run are counted only.
    """
    own = [finding for finding in findings if finding.recipe == recipe]
    was_run = [finding for finding in own if finding.verdict != NOT_RUN]
    words = [(finding.says, verdict_text(finding)) for finding in was_run]
    told = [f"{verdict[:1].upper()}{verdict[1:]}: {says}" for says, verdict in words]
    missing = len(own) - len(was_run)
    if missing:
        others = "other claim" if was_run else "claim"
        told.append(f"Not run: {missing} {others}{'' if missing == 1 else 's'}.")
    return " ".join(told)


def table(findings: Sequence[Finding]) -> Table:
    """Return the ledger as a table, in the order of the recipes."""
    return Table(CAPTION, HEADS, tuple(map(_line, findings)))


def _line(finding: Finding) -> Line:
    texts = (
        f"{finding.recipe}: {finding.where}",
        verdict_text(finding),
        finding.quantity or cells.NONE,
        ours_text(finding),
        paper_text(finding),
        str(finding.seeds or cells.NONE),
        finding.setting or cells.NONE,
    )
    tone = {HOLDS: "better", FAILS: "worse"}.get(finding.verdict, "missing")
    cells_of = [Cell(text, tone if i == 1 else "") for i, text in enumerate(texts)]
    return Line(finding.says, tuple(cells_of), True)


def verdict_text(finding: Finding) -> str:
    """Return the verdict, and why it is not decided."""
    return f"{finding.verdict} ({finding.remark})" if finding.remark else finding.verdict


def ours_text(finding: Finding) -> str:
    """Return our figure with its interval."""
    if finding.ours is None:
        return cells.NONE
    mean, low, high = finding.ours
    shown = signed(finding, mean)
    if low is not None and high is not None and low < high:
        shown += f" [{signed(finding, low)}, {signed(finding, high)}]"
    return shown


def paper_text(finding: Finding) -> str:
    """Return the paper's figure of the same quantity."""
    return cells.NONE if finding.paper is None else signed(finding, finding.paper)


def signed(finding: Finding, value: float) -> str:
    """Return a figure as it is shown; a difference has its sign."""
    if finding.kind == "difference":
        text = cells.percent(value) if abs(value) < 1000 else cells.significant(value)
        return text if text.startswith(cells.MINUS) else f"+{text}"
    return cells.percent(value) if finding.kind == "ratio" else cells.significant(value)
