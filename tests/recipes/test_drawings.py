"""Figures that are drawn from a table's runs."""

import pytest

from tests.recipes.planning import plan
from tff_partial.recipes import catalog, drawings

FIGURE = """title = "Figure 6"
of = "{of}"
rows = ["{rows}"]
quantities = ["{quantity}"]
"""


def test_a_figure_has_rows_of_its_table_and_runs_in_its_folder(tmp_path):
    figure, table = (
        catalog.load("partial_averaging/figure6"),
        catalog.load("partial_averaging/table1"),
    )
    assert [row.id for row in figure.rows] == [r.id for r in table.rows if "cifar10-" in r.id]
    assert (figure.of, figure.claims) == ("partial_averaging/table1", ())
    made = plan(
        "partial_averaging/figure6", 0.01, "tau8", data="embedded", output_dir=str(tmp_path)
    )
    wanted = plan(
        "partial_averaging/table1", 0.01, "cifar10-tau8", data="embedded", output_dir=str(tmp_path)
    )
    assert made.runs == wanted.runs
    assert made.document == wanted.document
    assert made.folder == tmp_path / "partial_averaging" / "table1" / "scale-0.01"


def test_every_figure_is_listed_with_its_table():
    found = drawings.all_of()
    names = [each.name for each in found["partial_averaging/table1"]]
    assert names == [f"partial_averaging/figure{n}" for n in (4, 6, 7, 8, 9, 10)]
    assert found["partial_averaging/table3"][0].quantities == ("global_loss",)
    [own] = found["partial_averaging/figure3"]
    assert own.quantities == ("global_loss", "min_local_loss")


def write(folder, table="", **values):
    name = folder / "figure6.toml"
    name.write_text(
        FIGURE.format(**{"of": "table1", "rows": "low", "quantity": "train_loss", **values})
    )
    return str(name)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"of": "table9"}, "of must be a recipe in"),
        ({"of": "../table1"}, "of must be a recipe in"),
        ({"of": "figure6"}, "of must be a recipe in"),
        ({"rows": "none"}, "only must name rows"),
        ({"quantity": "speed"}, "quantities must be some of"),
    ],
)
def test_figures_that_are_none(values, message, tmp_path):
    source = catalog.FOLDER / "fedumf" / "figure3.toml"
    (tmp_path / "table1.toml").write_text(source.read_text())
    with pytest.raises(ValueError, match=message):
        catalog.load(write(tmp_path, **{"rows": "fedavg", **values}))


def test_a_figure_of_ones_own_stands_beside_its_table(tmp_path):
    source = catalog.FOLDER / "fedumf" / "figure3.toml"
    (tmp_path / "table1.toml").write_text(source.read_text())
    path = write(tmp_path, rows="fedavg")
    assert len(catalog.load(path).rows) == 2
    made = plan(path, 0.01, data="embedded", output_dir=str(tmp_path / "out"))
    assert len(made.runs) == 2
    (tmp_path / "figure7.toml").write_text(FIGURE.format(of="figure6", rows="a", quantity="x"))
    with pytest.raises(ValueError, match="of must be a recipe with runs of its own"):
        catalog.load(str(tmp_path / "figure7.toml"))
