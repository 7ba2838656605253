"""Tables that are computed exactly."""

import json

import pytest

from tests.recipes.planning import OWN, TRAINED
from tff_partial.cli import run as run_experiment
from tff_partial.recipes import catalog, exact


@pytest.mark.parametrize("name", [name for name in OWN if name not in TRAINED])
def test_exact_tables_have_the_rows_of_their_recipe(name):
    recipe = catalog.load(name)
    ours = exact.TABLES[recipe.source]()
    assert set(ours) == {row.id for row in recipe.rows}
    if name in ("embracing/table1", "embracing/table10"):
        assert {row.id: row.paper.text for row in recipe.rows} == {
            row: text for row, (_, text) in ours.items()
        }


def test_exact_tables_print_at_once(tmp_path, capsys):
    args = ["--recipe=fedpmt/table2", f"--output_dir={tmp_path}", "--only=fcnn"]
    assert run_experiment.main([*args]) == 0
    printed = capsys.readouterr().out
    assert printed.count("9,779,760 (63.9 %)") == 2
    assert printed.count("equal") == 3
    assert "-4,608" in printed
    place = tmp_path / "fedpmt" / "table2" / "scale-1"
    document = json.loads((place / "recipe.json").read_text())
    assert (document["kind"], len(document["rows"])) == ("exact", 4)
    summary = json.loads((place / "fcnn-1" / "seed-0" / "summary.json").read_text())
    assert summary["operations"] == 9_779_760


def test_table7_uploads_what_the_paper_does_if_the_mask_is_on_outputs():
    ours = exact.feddse_table7()
    assert ours["fedavg-communication"].text == "44.59"
    assert ours["outputs-communication"].text.startswith("16.17 (16.22 ")
    third = (11_689_512 - 513_000) / 3 + 513_000
    assert ours["outputs-communication"].value == pytest.approx(4 * third / 2**20)
    assert ours["both-communication"].value < 4 * (513_000 + 11_176_512 / 9) / 2**20
