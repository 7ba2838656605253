"""The format of recipes."""

import pytest

from tff_partial.recipes import catalog, schema
from tff_partial.results.schema import Target


def test_numbers_are_read_with_their_spread_and_targets():
    rows = {row.id: row for row in catalog.load("embracing/table3").rows}
    assert rows["case7"].paper == schema.Published(76.98, 1.6, "76.98 ± 1.6")
    assert rows["case7"].columns["average capacity"] == "0.27"
    rows = {row.id: row for row in catalog.load("fedumf/table1").rows}
    paper = rows["eta0.01-c0.1-fedavg"].paper
    assert (paper.value, paper.spread) == (69.0, None)
    assert paper.targets[0] == Target(0.92, 23.0)
    assert paper.targets[-1] == Target(0.97, None)
    assert paper.text.endswith("97 %: *")


def test_combinations_of_axes_have_their_own_settings():
    rows = {row.id: row.settings for row in catalog.load("partial_averaging/table3").rows}
    assert rows["cifar10-active25-dir0.1-periodic"]["learning_rate"].startswith("0.2~")
    assert rows["cifar10-active25-dir1-periodic"]["learning_rate"].startswith("0.4~")
    assert rows["imdb-active50-dir1-partial"]["local_steps"] == 11
    assert "imdb-active50-dir0.1-partial" not in rows
    assert "case1-width" not in {row.id for row in catalog.load("embracing/table6").rows}


GOOD = {
    "title": "t",
    "paper": "p",
    "kind": "runs",
    "metric": {
        "name": "best_test_accuracy",
        "label": "l",
        "unit": "%",
        "higher_is_better": True,
    },
    "rows": [{"id": "a", "label": "a", "paper": "1.5 ± 0.5"}],
}


AXIS = {"column": "c", "values": [{"id": "x", "label": "x"}]}


BAD = {
    "no title": ({"title": None}, "must have title"),
    "unknown key": ({"row": []}, "have no keys but"),
    "wrong type": ({"notes": "n"}, "notes must be list"),
    "kind": ({"kind": "run"}, "kind must be one of runs, exact, analysis"),
    "metric": ({"metric": {**GOOD["metric"], "name": "accuracy"}}, "name must be one of best"),
    "direction": (
        {"metric": {k: v for k, v in GOOD["metric"].items() if k != "higher_is_better"}},
        "say whether higher_is_better",
    ),
    "no rows": ({"rows": []}, "must have rows"),
    "twice": ({"rows": GOOD["rows"] * 2}, "an id of its own"),
    "id": ({"rows": [{"id": "../a", "label": "a", "paper": "1"}]}, "have an id of small"),
    "no number": ({"rows": [{"id": "a", "label": "a"}]}, "must have paper"),
    "number": ({"rows": [{"id": "a", "label": "a", "paper": [1.5]}]}, "number as text"),
    "stand-in": (
        {"rows": [{"id": "a", "label": "a", "paper": "1", "stands_in": "yes"}]},
        "stands_in must be bool",
    ),
    "rows and axes": ({"axes": [AXIS], "numbers": {}}, "either rows or axes"),
    "axes alone": ({"rows": None, "axes": [AXIS]}, "either rows or axes"),
    "length": ({"rows": None, "axes": [AXIS], "numbers": {"": ["1", "2"]}}, "be a list of 1"),
    "combination": ({"rows": None, "axes": [AXIS], "numbers": {"y": ["1"]}}, "combinations of"),
    "source": ({"source": "s"}, "have a source unless"),
    "targets": (
        {"rows": [{"id": "a", "label": "a", "paper": ["1"], "targets": [0.5, 0.6]}]},
        "number for each of the targets",
    ),
    "own target": (
        {"rows": [{"id": "a", "label": "a", "paper": ["1"], "targets": [0.5]}]},
        "have a target_accuracy of",
    ),
}


def test_the_smallest_recipe():
    recipe = schema.parse("x/y", GOOD)
    assert recipe.rows[0].paper == schema.Published(1.5, 0.5, "1.5 ± 0.5")


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD.keys())
def test_what_does_not_keep_to_the_format_is_an_error(change, message):
    data = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(ValueError, match=message) as error:
        schema.parse("x/y", data)
    assert str(error.value).startswith("x/y.toml")
    assert "\n" not in str(error.value)


def test_reduced_settings_of_a_row_replace_those_of_the_recipe():
    rounds = {"value": 5, "why": "few"}
    clients = {"value": 2, "why": "small"}
    data = {**GOOD, "reduced": {"rounds": rounds, "clients": clients}}
    row = {**GOOD["rows"][0], "reduced": {"rounds": {"value": 9, "why": "more"}}}
    (found,) = schema.parse("own/t", {**data, "rows": [row]}).rows
    assert found.reduced == {
        "rounds": schema.Reduced(9, "more"),
        "clients": schema.Reduced(2, "small"),
    }
    with pytest.raises(ValueError, match="reduced, rounds must have why"):
        schema.parse("own/t", {**GOOD, "reduced": {"rounds": {"value": 5}}})
