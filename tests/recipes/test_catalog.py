"""The recipes of the papers, found, loaded, listed and selected."""

import dataclasses
import re

import pytest
from absl import flags

from tests.recipes.planning import ALL, TRAINED
from tff_partial.cli import run as run_experiment
from tff_partial.recipes import catalog


def test_every_table_has_its_recipe_and_every_recipe_is_listed():
    assert sorted(catalog.names()) == sorted(ALL)
    listed = run_experiment.list_everything()
    assert all(f"  {name} " in listed for name in ALL)
    order = catalog.names()
    assert order.index("embracing/table2") < order.index("embracing/table10")


@pytest.mark.parametrize("name", ALL)
def test_recipe_says_what_it_is_and_has_numbers_or_words_for_every_row(name):
    recipe = catalog.load(name)
    words = re.search(r"(table|figure|appendix)([A-Z]?\d+)", name)
    special = {"fedpmt/table2": "II", "fedpmt/table3": "III", "feddse/appendixA3": "A.3"}
    number = special.get(name, words[2])
    assert recipe.title.lower().startswith(f"{words[1]} {number}:".lower())
    for row in recipe.rows:
        assert row.paper.text
        assert row.columns
        if recipe.metric.unit == "%" and row.paper.value is not None:
            assert 1 < row.paper.value < 100
            assert row.paper.spread is None or 0 < row.paper.spread < 4
            assert row.paper.text.startswith(str(row.paper.value)[:4])


@pytest.mark.parametrize("name", TRAINED)
def test_flags_of_every_row_exist(name):
    values = flags.FlagValues()
    run_experiment.define_flags(values)
    for row in catalog.load(name).rows:
        assert set(row.settings) <= set(values), row.id


def test_only_selects_ids_and_whole_words_of_them():
    recipe = catalog.load("embracing/table6")

    def chosen(only):
        return [row.id for row in catalog.select(recipe, only)]

    assert chosen("case1") == ["case1-embracing"]
    assert chosen("case5,case7-width") == ["case5-width", "case5-embracing", "case7-width"]
    assert len(chosen("width")) == 9
    assert len(chosen("")) == len(recipe.rows)
    with pytest.raises(ValueError, match="only must name rows of .*Received: only=case11"):
        catalog.select(recipe, "case5,case11")


def test_files_that_are_no_recipe(tmp_path):
    (tmp_path / "broken.toml").write_text("title = ")
    with pytest.raises(ValueError, match=r"broken.toml must be TOML"):
        catalog.load(str(tmp_path / "broken.toml"))
    for name in ("embracing/table99", "../setup", "embracing", str(tmp_path / "none.toml")):
        with pytest.raises(ValueError, match="recipe must be one of"):
            catalog.load(name)


def test_the_document_lists_every_recipe_with_its_number_of_runs():
    text = (catalog.FOLDER.parent / "docs" / "reproducing.md").read_text()
    for name in ALL:
        recipe = catalog.load(name)
        count = "exact" if recipe.kind == "exact" else len(recipe.rows)
        assert re.search(rf"^\| `{name}` \| [^|]+ \| {count} \|", text, re.MULTILINE), name


def test_the_example_of_the_document_is_a_recipe(tmp_path):
    text = (catalog.FOLDER.parent / "docs" / "reproducing.md").read_text()
    grid, rows, more = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "more.toml").write_text(grid + more)
    complete = catalog.load(str(tmp_path / "more.toml"))
    assert [claim.id for claim in complete.claims] == ["fedumf-is-better"]
    assert all(row.reduced["rounds"].value == 25 for row in complete.rows)
    (tmp_path / "grid.toml").write_text(grid)
    found = catalog.load(str(tmp_path / "grid.toml"))
    assert [row.id for row in found.rows] == ["low-fedavg", "low-fedumf", "high-fedavg"]
    assert found.rows[2].settings["rounds"] == 100
    (tmp_path / "rows.toml").write_text(grid[: grid.index("[[axes]]")] + rows)
    [row] = catalog.load(str(tmp_path / "rows.toml")).rows
    assert row == dataclasses.replace(found.rows[0], label=row.label, columns=row.columns)
