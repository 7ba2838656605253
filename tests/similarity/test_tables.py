"""similarity.csv, what is drawn of it, and its table."""

import pytest

from tff_partial.results import text_files
from tff_partial.similarity import tables


def test_the_table_of_figure_1_ends_with_the_last_time():
    values = ("none", 0, 0, "fc1", 0.5, 0.4, 3)
    every = [{**dict(zip(tables.COLUMNS, values)), "steps": 10 * i} for i in range(1, 13)]
    header = tables.table(1, every).splitlines()[0]
    assert header == "| block | 30 steps | 60 steps | 90 steps | 120 steps |"


def test_measurements_are_read_where_there_are_some(tmp_path):
    columns = "round,svcca_clients,svcca_max_fc1,svcca_mean_fc1"
    (tmp_path / "metrics.csv").write_text(f"{columns}\n1,,,\n2,3,0.5,0.25\n")
    (row,) = tables.read({"none": str(tmp_path)}, ["fc1"], local_steps=5)
    assert [*row.values()] == ["none", 10, 0, "fc1", 0.5, 0.25, 3]
    assert tables.panels(1, [row]) == {"all blocks": {"0 fc1": [(10, 0.5)]}}
    assert tables.panels(3, [row]) == {"0 fc1": {"none": [(10, 0.5)]}}


@pytest.mark.parametrize("content", ["scheme,steps\nnone,1\n", ",".join(tables.COLUMNS) + "\na,b"])
def test_another_table_is_one_line(content, tmp_path):
    (tmp_path / "similarity.csv").write_text(content)
    with pytest.raises(
        text_files.ResultsError, match="must be of an analysis. Received: "
    ) as error:
        tables.read_csv(str(tmp_path / "similarity.csv"))
    assert "\n" not in str(error.value)
