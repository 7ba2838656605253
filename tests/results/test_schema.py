"""What files of a results folder may hold."""

import pytest

from tff_partial.results import schema


@pytest.mark.parametrize(
    ("name", "unit", "factor", "has_target"),
    [("best_test_accuracy", "%", 100, False), ("rounds_to_target", "rounds", 1, True)],
)
def test_percentages_are_a_hundred_times_ours(name, unit, factor, has_target):
    metric = schema.Metric(name, "label", unit)
    assert (metric.factor, metric.has_target) == (factor, has_target)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a/"])
def test_the_id_of_a_row_is_the_name_of_a_folder(name):
    with pytest.raises(ValueError, match=f"be the name of a folder. Received: {name!r}"):
        schema.RecipeRow(name, "label")


def recipe(name="paper/table1", kind="runs"):
    return schema.RecipeResults(name, "", "", kind, schema.Metric("", ""), ())


@pytest.mark.parametrize("name", ["/a", "a/", "a//b", "../a", "a/./b"])
def test_the_name_of_a_recipe_leads_nowhere_else(name):
    with pytest.raises(ValueError, match="recipe must be a name such as paper/table1. Received: "):
        recipe(name)


def test_the_kind_of_a_recipe_is_known():
    assert recipe(kind="exact").scale is None
    with pytest.raises(ValueError, match="kind must be one of runs, exact, analysis. Received: "):
        recipe(kind="guess")
