"""Runs as their files say, of older versions too."""

import re

import pytest

from tests.report.report_folders import rendered, tables, write, write_run
from tff_partial.report import sections


def test_runs_from_before_weight_decay_on_decayed_kernels(results):
    write_run(results / "old", [0.4], weight_decay=0.1)
    write_run(results / "new", [0.6], weight_decay=0.1, weight_decay_on="kernels", seed=1)
    write_run(results / "all", [0.8], weight_decay=0.1, weight_decay_on="all")
    text, _ = rendered(results)
    (lines,) = tables(text)
    assert [(line["weight_decay_on"], line["seeds"]) for line in lines] == [
        ("all", "1"),
        ("kernels", "2"),
    ]
    assert "--weight_decay=0.1 --weight_decay_on=kernels" in text


@pytest.mark.parametrize("is_real", [True, False, None])
@pytest.mark.parametrize("data", ["embedded: digits", "real: mnist 3.0.1", "mine"])
def test_what_config_says_of_the_data_counts_and_words_where_it_says_nothing(
    results, is_real, data
):
    write_run(results / "a", [0.5], is_real=is_real, data=data)
    ((section,),) = (sections.find([str(results)]),)
    assert section.is_real == (data.startswith("real") if is_real is None else is_real)


def test_numbers_that_are_none_are_left_out(results):
    odd = {"simulated_seconds": "inf", "discrepancy": "1e308", "test_accuracy_all_clients": "nan"}
    for seed, accuracy in enumerate(["inf", "1e308", "nan", "-1e308", 0.5]):
        folder = write_run(results / f"{seed}", [accuracy], seed=seed, summary={"rounds": 1e308})
        head, line = (folder / "metrics.csv").read_text().splitlines()
        names = [*head.split(",")[:-1], *odd]
        values = [*line.split(",")[:-1], *odd.values()]
        write(folder / "metrics.csv", f"{','.join(names)}\n{','.join(values)}\n")
    text, html = rendered(results)
    assert "| 50.00 |" in text
    assert "inf" not in text + re.search(r'type="application/json".*?</script>', html)[0]


def test_a_run_that_went_on_has_its_figures_of_now(results):
    summary = {"best_test_accuracy": 0.1, "rounds": 1, "rounds_to_target": None}
    write_run(results / "a", [0.1, 0.6], summary=summary)
    text, _ = rendered(results)
    ((line,),) = tables(text)
    assert (line["best accuracy, %"], line["rounds to target"]) == ("60.00", "2")
