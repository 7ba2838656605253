"""Sweeps in the report."""

import json
import re

import pytest

from tests.report.report_folders import rendered, tables, write_run
from tff_partial.report import recipes, sections, sweeps

ACCURACY = {"name": "final_test_accuracy", "label": "final test accuracy", "unit": "%"}


def write_sweep(folder, accuracies, higher_is_better=True, metric=ACCURACY, **settings):
    """A sweep over the learning rate: rate -> the final accuracies of its seeds."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"id": f"learning_rate={rate}", "label": f"learning_rate={rate}", "command": f"run {rate}"}
        for rate in accuracies
    ]
    content = {
        "recipe": "",
        "title": "Sweep over learning_rate: mnist, fedavg",
        "paper": "",
        "kind": "runs",
        "metric": {**metric, "higher_is_better": higher_is_better},
        "rows": rows,
        "given": {"task": "mnist"},
    }
    (folder / "sweep.json").write_text(json.dumps(content))
    for rate, finals in accuracies.items():
        for seed, final in enumerate(finals):
            place = folder / f"learning_rate={rate}" / f"seed-{seed}"
            write_run(place, [0.1, final], seed=seed, learning_rate=rate, **settings)


def best(folder):
    section = recipes.read(str(folder), str(folder))
    row = sweeps.best(section)
    return row and row.label, sweeps.verdict(section)


def test_the_best_mean_counts(results):
    write_sweep(results, {"0.1": [0.5, 0.7], "0.2": [0.62, 0.64], "0.3": [0.1, 0.9]})
    label, verdict = best(results)
    assert label == "learning_rate=0.2"
    assert verdict.startswith(
        "Best of 3 settings by final test accuracy: learning_rate=0.2, 63.00 ± 1.41 % (mean ± "
        "standard deviation over 2 seeds)."
    )


def test_a_setting_with_fewer_finished_seeds_is_left_out(results):
    write_sweep(results, {"0.1": [0.5, 0.6], "0.2": [0.9], "0.3": []})
    label, verdict = best(results)
    assert label == "learning_rate=0.1"
    assert verdict.startswith("Best of 2 finished settings of 3 by ")


def test_fewer_rounds_are_better(results):
    metric = {"name": "rounds_to_target", "label": "rounds to the target", "unit": "rounds"}
    accuracies = {"0.1": [0.05, 0.05], "0.2": [0.6, 0.6], "0.3": [0.6]}
    write_sweep(results, accuracies, higher_is_better=False, metric=metric, target_accuracy=0.55)
    assert best(results)[0] == "learning_rate=0.2"


def test_nothing_is_best_of_nothing(results):
    write_sweep(results, {"0.1": []})
    assert best(results) == (None, "")
    write_run(results.parent / "other" / "run", [0.5])
    [section] = sections.find([str(results.parent / "other")])
    assert not sweeps.is_sweep(section)


@pytest.mark.parametrize("is_real", [True, False])
def test_the_report_has_a_section_with_the_best_setting(is_real, results):
    write_sweep(results / "sweep", {"0.1": [0.5, 0.7], "0.2": [0.8, 0.8]}, is_real=is_real)
    write_run(results / "single", [0.5])
    text, html = rendered(results)
    table, _ = tables(text)
    assert [line["setting"] for line in table] == ["learning_rate=0.1", "learning_rate=0.2"]
    assert [line["seeds"] for line in table] == ["2", "2"]
    assert text.index("Sweep over") < text.index("## mnist, mlp")
    for shown in (text, html):
        assert "Best of 2 settings by final test accuracy: " in shown
    assert "in place of the paper" not in text
    assert re.search('class="better"[^>]*>80.00 ± 0.00</td>', html)
