"""Rules of claims: what the rows of a table must be like for a paper's sentence to hold.

A rule compares rows by their ids, with spaces between its words:

    case5 >= case1 - 1.0                  a difference, in the metric's unit
    case1 >= case5 >= case7               a chain: every step must hold
    fedumf <= 0.7 * fedavg                a ratio
    fedpmt / fedavg between 0.4 and 0.6   a ratio within bounds
    many >= 90                            a row's own figure
    partial8 - periodic8 >= partial2 - periodic2
    a > b; c > d                          both must hold
    equal                                 exact tables: every row is the paper's

`<row>@<key>` is another figure of the row's runs: its target accuracy (`fedavg@0.97`), or scheme
and block of a similarity (`cifar10@channel/stage3_block3`).

Every comparison is a statistic, a difference or a ratio, and a bound; `claims` judges them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import Optional

from tff_partial.results.checks import fail

EQUAL = "equal"
_OPERATOR = re.compile(r" (>=|>|<=|<) ")
_BETWEEN = re.compile(r"(.+) between (\S+) and (\S+)")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclasses.dataclass(frozen=True)
class Baseline:
    """The row that must have learnt before anything is said about others.

    Attributes:
      row: Its id.
      share: It must reach this share of `accuracy`.
      accuracy: In %; by default the row's own number, or its target where that is no accuracy.
    """

    row: str
    share: float = 0.9
    accuracy: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence of the paper that the rows can confirm or refute.

    Attributes:
      id: Its name within the recipe.
      says: What the paper says, in our words.
      where: Where it says it.
      rule: See the module's docstring.
      baseline: See `Baseline`; recipes of trained rows must have one.
      figure: What is compared, if not the recipe's metric: a key of summary.json, or
        `mean:<column>` or `last:<column>` of metrics.csv.
      unit: That of `figure`.
    """

    id: str
    says: str
    where: str
    rule: str
    baseline: Optional[Baseline] = None
    figure: str = ""
    unit: str = ""


@dataclasses.dataclass(frozen=True)
class Side:
    """A side of a comparison: the sum of coefficient * row, plus a constant; or `row / divisor`."""

    rows: Mapping[str, float]
    constant: float = 0.0
    divisor: str = ""


@dataclasses.dataclass(frozen=True)
class Comparison:
    """`statistic operator bound`.

    Attributes:
      rows: Row -> its coefficient in the statistic.
      divisor: The row by which the statistic is divided; empty if it is no ratio.
      operator: `>=`, `>`, `<=` or `<`.
      bound: What the statistic is compared with.
    """

    rows: Mapping[str, float]
    divisor: str
    operator: str
    bound: float

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.rows, *([self.divisor] if self.divisor else []))

    @property
    def kind(self) -> str:
        """What the statistic is: a `difference`, a `ratio` or one row's `value`."""
        if self.divisor:
            return "ratio"
        return "difference" if len(self.rows) > 1 else "value"

    @property
    def sign(self) -> int:
        """1 if a large statistic is in favour, -1 if a small one is."""
        return 1 if self.operator.startswith(">") else -1

    def value(self, figures: Mapping[str, float]) -> Optional[float]:
        """Return the statistic of the rows' figures; None if one is missing or divides by 0."""
        if any(name not in figures for name in self.names):
            return None
        total = sum(coefficient * figures[row] for row, coefficient in self.rows.items())
        if not self.divisor:
            return total
        return total / figures[self.divisor] if figures[self.divisor] else None

    def margin(self, value: float) -> float:
        """Return how far a statistic is on the right side of the bound."""
        return self.sign * (value - self.bound)

    def is_met(self, margin: float) -> bool:
        return margin >= 0 if "=" in self.operator else margin > 0

    def raises(self, row: str) -> bool:
        """Return whether the margin grows with the figure of a row."""
        coefficient = -1.0 if row == self.divisor else self.rows[row]
        return coefficient * self.sign > 0


@dataclasses.dataclass(frozen=True)
class Rule:
    """Comparisons that must all hold; none for `equal`."""

    comparisons: tuple[Comparison, ...]

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows that are compared, without keys."""
        names = (name for each in self.comparisons for name in each.names)
        return tuple(dict.fromkeys(name.partition("@")[0] for name in names))


def parse(text: str) -> Rule:
    """Return the rule that a text describes.

    Raises:
      ValueError: If it is not in the format.
    """
    if text == EQUAL:
        return Rule(())
    return Rule(tuple(each for chain in text.split("; ") for each in _chain(chain)))


def _chain(text: str) -> list[Comparison]:
    """Return the steps of `a >= b >= c`, or the bounds of `a between x and y`."""
    between = _BETWEEN.fullmatch(text)
    if between:
        text = f"{between[2]} <= {between[1]} <= {between[3]}"
    parts = _OPERATOR.split(text)
    if len(parts) < 3:
        raise ValueError(f"a rule must compare rows by >=, >, <= or <. Received: {text!r}")
    sides = [_side(part) for part in parts[::2]]
    return [
        _comparison(left, operator, right, text)
        for left, operator, right in zip(sides, parts[1::2], sides[1:])
    ]


def check(where: str, claim: Claim, kind: str, ids: Collection[str]) -> None:
    """Raise a ValueError if a claim has no rule, or is about rows that its recipe does not have."""
    try:
        rule = parse(claim.rule)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    if kind == "runs" and claim.baseline is None:
        fail(where, "have a baseline", claim.rule)
    if (claim.rule == EQUAL) > (kind == "exact"):
        fail(where, "compare rows, as the recipe is not exact", claim.rule)
    rows = [*rule.rows, *([claim.baseline.row] if claim.baseline else [])]
    unknown = [row for row in rows if row not in ids]
    if unknown:
        fail(where, "be about rows of the recipe", unknown)


def _side(text: str) -> Side:
    """Read `a / b`, `0.7 * b`, or a sum such as `a - b + 1.0`."""
    words = text.split()
    if len(words) == 3 and words[1] == "/":
        return Side({words[0]: 1.0}, divisor=words[2])
    if len(words) == 3 and words[1] == "*" and _NUMBER.fullmatch(words[0]):
        return Side({words[2]: float(words[0])})
    rows: dict[str, float] = {}
    constant = 0.0
    for sign, word in zip(["+", *words[1::2]], words[::2]):
        if sign not in ("+", "-") or len(words) % 2 == 0:
            raise ValueError(f"a rule must have sums, a / b or 0.5 * b. Received: {text!r}")
        factor = 1.0 if sign == "+" else -1.0
        if _NUMBER.fullmatch(word):
            constant += factor * float(word)
        else:
            rows[word] = rows.get(word, 0.0) + factor
    return Side(rows, constant)


def _comparison(left: Side, operator: str, right: Side, text: str) -> Comparison:
    """Return the comparison with all rows on the left."""
    if left.divisor or right.divisor:
        ratio, other = (left, right) if left.divisor else (right, left)
        if other.rows or other.divisor:
            raise ValueError(f"a ratio must be compared with a number. Received: {text!r}")
        operator = operator if left.divisor else operator.translate(str.maketrans("<>", "><"))
        return Comparison(ratio.rows, ratio.divisor, operator, other.constant)
    [(row, factor)] = right.rows.items() if len(right.rows) == 1 else [("", 1.0)]
    if factor not in (1.0, -1.0) and left == Side({**left.rows}) and len(left.rows) == 1:
        return Comparison(left.rows, row, operator, factor)
    rows = dict(left.rows)
    for row, coefficient in right.rows.items():
        rows[row] = rows.get(row, 0.0) - coefficient
    if not rows:
        raise ValueError(f"a rule must compare rows. Received: {text!r}")
    if not left.rows:  # 0.5 <= row: the row comes first
        rows = {row: -coefficient for row, coefficient in rows.items()}
        flipped = operator.translate(str.maketrans("<>", "><"))
        return Comparison(rows, "", flipped, left.constant - right.constant)
    return Comparison(rows, "", operator, right.constant - left.constant)
