"""What --dry_run says."""

import pytest

import tasks
from tff_partial.cli import run as run_experiment
from tff_partial.experiments import config
from tff_partial.recipes import estimate


@pytest.mark.usefixtures("keep_runtime")
def test_dry_run_lists_the_runs_and_writes_nothing(tiny, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    args = [*tiny, "--only=average,proximal", "--seeds=2", "--dry_run"]
    assert run_experiment.main([*args]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("own/tiny: 4 runs, about ")
    assert [line.split("  ")[0] for line in lines[3:]] == [
        "average seed 0",
        "proximal seed 0",
        "average seed 1",
        "proximal seed 1",
    ]
    assert all("2 of 11" in line and "mnist (embedded)" in line for line in lines[3:])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("is_embedded", "words"), [(True, 32), (False, 256)])
def test_the_estimate_is_of_the_data_that_are_used(is_embedded, words):
    experiment = config.create("imdb", "fedavg")
    assert estimate.expected_data(experiment, is_embedded)[0].input_shape == (words,)


@pytest.mark.parametrize(("is_embedded", "writers"), [(True, 100), (False, 3400)])
def test_clients_of_writers_have_the_writers_share_of_the_examples(is_embedded, writers):
    experiment = config.create("femnist", "fedavg")
    train = 3 * 1397 if is_embedded else tasks.TASKS["femnist"].examples[0]
    data, _ = estimate.expected_data(experiment, is_embedded)
    assert data.client_size(0) == 2 * train // writers
