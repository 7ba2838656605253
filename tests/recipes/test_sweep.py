"""Running sweeps: on the command line and in Python."""

import json

import pytest

import tff_partial
from tests.report.report_folders import write_run
from tff_partial.cli import run as run_experiment
from tff_partial.recipes import runner, sweep
from tff_partial.report import sections

SMALL = {
    "task": "mnist",
    "model": "softmax",
    "data": "embedded",
    "clients": 4,
    "clients_per_round": 2,
    "rounds": 2,
    "local_steps": 2,
}
FLAGS = [f"--{name}={value}" for name, value in SMALL.items()]


@pytest.fixture
def write_instead(monkeypatch):
    """Runs that are written, not trained: their accuracy is their rate plus a tenth of the seed."""
    jobs_of = []

    def run_all(runs, jobs):
        jobs_of.append(jobs)
        for run in runs:
            accuracy = float(run.experiment.settings.learning_rate) + 0.1 * run.seed
            write_run(run.folder, [0.1, accuracy], seed=run.seed, target_accuracy=None)
        return runner.Outcome()

    monkeypatch.setattr(runner, "run_all", run_all)
    return jobs_of


def test_the_best_setting_and_its_spread(write_instead, tmp_path, capsys):
    flags = [*FLAGS, "--sweep=learning_rate=0.2,0.5,0.3;seed=0..1", f"--output_dir={tmp_path}"]
    assert run_experiment.main([*flags, "--jobs=2"]) == 0
    out = capsys.readouterr().out
    lines = [line.split() for line in out.splitlines()]
    assert ["learning_rate=0.5", "55.00", "±", "7.07", "55.00", "±", "7.07", "2", "2"] in lines
    assert (
        "Best of 3 settings by final test accuracy: learning_rate=0.5, 55.00 ± 7.07 % (mean ± "
        "standard deviation over 2 seeds). It was chosen on the test data, which favours it."
    ) in out.splitlines()
    assert write_instead == [2]
    [section] = sections.find([str(tmp_path)])
    assert section.title == "Sweep over learning_rate: mnist, fedavg"


def test_in_python(write_instead, tmp_path):
    folder = str(tmp_path / "sweep")
    over = {"learning_rate": [0.2, 0.5], "seed": range(2)}
    result = tff_partial.sweep(over, output_dir=folder, **SMALL)
    assert result.folder == folder
    assert [row["learning_rate"] for row in result.rows] == ["0.2", "0.5"]
    assert result.best == result.rows[1]
    assert result.best["mean"] == pytest.approx(0.55)
    assert result.best["deviation"] == pytest.approx(0.0707, abs=1e-4)
    assert (result.best["seeds"], result.failed) == (2, ())
    for wrong in ({"jobs": 0}, {"metric": "loss"}, {"learningrate": 1}):
        with pytest.raises(ValueError, match="must be"):
            tff_partial.sweep(over, **SMALL, **wrong)


@pytest.mark.slow
def test_runs_are_trained_and_those_that_are_finished_are_not_trained_again(tmp_path, capfd):
    flags = [*FLAGS, f"--output_dir={tmp_path / 's'}", "--jobs=2"]
    assert run_experiment.main([*flags, "--seeds=1", "--learning_rate=0.1"]) == 0
    assert "The setting: fedavg, final test accuracy " in capfd.readouterr().out
    weights = tmp_path / "s" / "fedavg" / "seed-0" / "weights.npz"
    before = weights.stat().st_mtime_ns
    assert run_experiment.main([*flags, "--seeds=2", "--learning_rate=0.1"]) == 0
    assert weights.stat().st_mtime_ns == before
    for seed in (0, 1):
        config = tmp_path / "s" / "fedavg" / f"seed-{seed}" / "config.json"
        settings = json.loads(config.read_text())["settings"]
        assert (settings["seed"], settings["learning_rate"]) == (seed, "0.1")
    assert "mean ± standard deviation over 2 seeds" in capfd.readouterr().out
    assert sweep.main  # the table is its


@pytest.mark.usefixtures("keep_runtime")
def test_dry_run_lists_the_runs_with_an_estimate_and_writes_nothing(tmp_path, capsys):
    flags = [*FLAGS, "--sweep=momentum=0,0.5", "--seeds=2", f"--output_dir={tmp_path / 's'}"]
    assert run_experiment.main([*flags, "--dry_run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Sweep over momentum: mnist, fedavg: 4 runs, about ")
    assert [line.split("  ")[0] for line in lines[3:]] == [
        "momentum=0.0 seed 0",
        "momentum=0.5 seed 0",
        "momentum=0.0 seed 1",
        "momentum=0.5 seed 1",
    ]
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "flags",
    [
        ["--sweep=momentum"],
        ["--sweep=momentm=0,1"],
        ["--sweep=momentum=0,0.5", "--momentum=0.1"],
        ["--sweep=momentum=0,0.5", "--recipe=embracing/table3"],
        ["--sweep=momentum=0,0.5", "--scale=0.1"],
        ["--sweep=momentum=0,0.5", "--sweep_metric=loss"],
        ["--jobs=2"],
        ["--sweep_metric=best_test_accuracy"],
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(flags, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_experiment.main(["--task=mnist", "--data=embedded", *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert list(tmp_path.iterdir()) == []
