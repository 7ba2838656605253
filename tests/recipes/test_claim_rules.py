"""Rules of claims: what texts mean."""

import pytest

from tff_partial.recipes import catalog, claim_rules, schema

FIGURES = {"a": 80.0, "b": 79.0, "c": 70.0, "d": 40.0, "x-0.1_y": 8.0, "a@0.97": 12.0}


def margins(text):
    """How far each comparison of a rule is on the right side, for `FIGURES`."""
    return [each.margin(each.value(FIGURES)) for each in claim_rules.parse(text).comparisons]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("b >= a - 1.5", [0.5]),
        ("a > b", [1.0]),
        ("a < b", [-1.0]),
        ("a >= b >= c", [1.0, 9.0]),
        ("d <= 0.6 * a", [0.1]),
        ("d <= 0.4 * a", [-0.1]),
        ("d / a between 0.4 and 0.55", [0.1, 0.05]),
        ("0.4 < d / a", [0.1]),
        ("a - b between -2.0 and 0.5", [3.0, -0.5]),
        ("a >= 90", [-10.0]),
        ("90 >= a", [10.0]),
        ("c - d > a - b + 1", [28.0]),
        ("x-0.1_y <= a@0.97", [4.0]),
        ("a > b; d < c", [1.0, 30.0]),
    ],
)
def test_a_rule_says_how_far_rows_are_from_its_bounds(text, expected):
    assert margins(text) == pytest.approx(expected)


def test_strict_comparisons_are_not_met_by_equality():
    strict, loose = (claim_rules.parse(f"a {sign} b").comparisons[0] for sign in (">", ">="))
    assert (strict.is_met(0.0), loose.is_met(0.0)) == (False, True)


def test_rows_are_named_once_and_without_keys():
    rule = claim_rules.parse("a@0.97 <= 0.5 * b@0.97; a >= 90")
    assert rule.rows == ("a", "b")
    ratio, value = rule.comparisons
    assert (ratio.kind, value.kind) == ("ratio", "value")
    assert ratio.raises("b@0.97")
    assert not ratio.raises("a@0.97")


@pytest.mark.parametrize("figures", [{"a": 1.0}, {"a": 1.0, "b": 0.0}])
def test_what_is_missing_or_divides_by_zero_has_no_value(figures):
    assert claim_rules.parse("a <= 0.5 * b").comparisons[0].value(figures) is None


@pytest.mark.parametrize(
    "text", ["", "a", "a = b", "a >", "1 > 2", "a / b > c", "a * b > c", "a b > c", "a > b c"]
)
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match="must"):
        claim_rules.parse(text)


def recipe(**claim):
    """A recipe with one claim."""
    claim = {"id": "c", "says": "A.", "where": "table 0", "rule": "a > b", **claim}
    settings = {"task": "mnist", "algo": "fedavg", "paper": "fedumf"}
    rows = [{"id": name, "label": name, "paper": "90", "settings": settings} for name in "ab"]
    metric = {"name": "best_test_accuracy", "label": "accuracy", "higher_is_better": True}
    data = {"title": "T", "paper": "P", "kind": "runs", "metric": metric, "rows": rows}
    return schema.parse("own/t", {**data, "claims": [claim]})


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({}, "have a baseline"),
        ({"baseline": {"row": "z"}}, "be about rows of the recipe.*'z'"),
        ({"baseline": {"row": "a"}, "rule": "a > z"}, "be about rows of the recipe.*'z'"),
        ({"baseline": {"row": "a"}, "rule": "equal"}, "the recipe is not exact"),
        ({"baseline": {"row": "a"}, "rule": "a"}, "claim c: a rule must compare"),
        ({"baseline": {"row": "a"}, "more": 1}, "have no keys but"),
    ],
)
def test_claims_are_checked_when_a_recipe_is_read(claim, message):
    with pytest.raises(ValueError, match=message):
        recipe(**claim)
    assert len(recipe(baseline={"row": "a"}).claims) == 1


def test_every_paper_has_claims_and_ids_are_unique():
    claims = {name: catalog.load(name).claims for name in catalog.names()}
    for paper in catalog.PAPERS:
        assert any(found for name, found in claims.items() if name.startswith(f"{paper}/"))
    for found in claims.values():
        assert len({claim.id for claim in found}) == len(found)
    assert 25 <= sum(map(len, claims.values())) <= 45
