"""What --dry_run says."""

import types

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


def test_losses_of_local_models_are_two_passes_through_the_data_in_evaluated_rounds():
    def seconds(**settings):
        settings |= {"task": "mnist", "algo": "periodic_averaging", "rounds": 10, "eval_every": 4}
        experiment = config.create(is_real=True, **settings)
        run = types.SimpleNamespace(
            experiment=experiment, is_embedded=False, total_rounds=10, figure=None
        )
        return estimate.seconds(run, timed), experiment.settings

    timed = {}
    (alike, settings), (without, _) = (
        seconds(**more) for more in ({}, {"periodic_averaging_measure_losses": False})
    )
    ((_, step),) = timed.values()
    examples = settings.clients_per_round * (60000 // settings.clients)
    # After rounds 4, 8 and 10.
    expected = 3 * 2 * examples / settings.batch_size * step / 3
    assert alike - without == pytest.approx(expected)
