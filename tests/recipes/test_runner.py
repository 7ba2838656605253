"""Running a recipe: processes, locks, signals, failures; and its command line."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.recipes.planning import fake_run, starts
from tff_partial.cli import run as run_experiment
from tff_partial.recipes import runner

ROOT = pathlib.Path(__file__).parents[2]


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


def test_a_failure_is_reported_and_the_others_go_on_and_are_skipped_next_time(tmp_path, capsys):
    runs = [fake_run(tmp_path, "a"), fake_run(tmp_path, "b", message="no"), fake_run(tmp_path, "c")]
    for times in (1, 2):
        outcome = runner.run_all(runs, jobs=2)
        assert outcome.signal == 0
        [(name, reason)] = outcome.failed
        assert name == "b seed 0"
        assert reason.startswith("exit code 1, error: no (see ")
        assert [len(starts(run)) for run in runs] == [1, times, 1]
    assert "6/6" in capsys.readouterr().err


def test_control_c_reaches_the_runs_and_no_other_is_started(tmp_path):
    runs = [fake_run(tmp_path, name, rounds=1000, seconds=0.1) for name in ("a", "b", "c")]

    def interrupt():
        wait_until(lambda: all((run.folder / "metrics.csv").exists() for run in runs[:2]))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    outcome = runner.run_all(runs, jobs=2)
    thread.join()
    assert (outcome.signal, outcome.failed) == (signal.SIGINT, [])
    assert not runs[2].folder.exists()
    for run in runs[:2]:
        assert not pathlib.Path(f"/proc/{starts(run)[0]}").exists()


def test_a_run_that_another_process_works_on_is_waited_for(tmp_path, capsys):
    run = fake_run(tmp_path, "a", rounds=10, seconds=0.1)
    other = runner._start(run, jobs=1)
    wait_until((run.folder / "starts").exists)
    assert runner._start(run, jobs=1) is None
    assert runner.run_all([run], jobs=1).failed == []
    assert len(starts(run)) == 1
    assert other.wait() == 0
    assert capsys.readouterr().err.count("a seed 0: another start is running it; waiting") == 1


def test_runs_end_with_the_process_that_started_them(tmp_path):
    code = (
        "import pathlib, sys; from tests.recipes import test_runner as t; "
        "run = t.fake_run(pathlib.Path(sys.argv[1]), 'a', rounds=10000, seconds=0.1); "
        "t.runner.run_all([run], jobs=1)"
    )
    started = fake_run(tmp_path, "a").folder / "starts"
    with open(tmp_path / "log", "w") as log:
        parent = subprocess.Popen([sys.executable, "-c", code, tmp_path], cwd=ROOT, stderr=log)
        wait_until(lambda: started.exists() and started.read_text().endswith("\n"))
        parent.kill()
        parent.wait()
    state = pathlib.Path(f"/proc/{started.read_text().strip()}")
    wait_until(lambda: not state.exists())


def test_looking_at_the_bar_is_no_progress(tmp_path, monkeypatch):
    run = fake_run(tmp_path, "a", rounds=3)
    monkeypatch.setattr(runner, "_REFRESH_SECONDS", 0.0)
    with runner._Progress([run]) as progress:
        updates = []
        monkeypatch.setattr(progress._bar, "update", updates.append)
        progress.update([run.name])
        run.folder.mkdir(parents=True)
        (run.folder / "metrics.csv").write_text("round\n1\n2\n")
        progress.update([run.name])
        monkeypatch.undo()
    assert updates == [2]


@pytest.mark.slow
@pytest.mark.usefixtures("keep_runtime")
def test_killed_and_started_again_it_skips_what_is_finished(tiny, tmp_path, capsys):
    place = tmp_path / "out" / "own" / "tiny" / "scale-0.013"
    with open(tmp_path / "log", "w") as log:
        command = [sys.executable, "run_experiment.py", *tiny, "--seeds=2", "--only=average"]
        command.append("--jobs=2")
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        wait_until(lambda: list(place.glob("*/seed-*/curves.png")), 900)
        process.kill()
        process.wait()
    done = [path.parent for path in place.glob("*/seed-*/curves.png")]
    before = [(folder / "weights.npz").stat().st_mtime_ns for folder in done]
    # Of seed 1 the second start goes on, and the other rows have it alone.
    assert run_experiment.main([*tiny, "--seed=1", "--jobs=2"]) == 1
    assert [(folder / "weights.npz").stat().st_mtime_ns for folder in done] == before
    captured = capsys.readouterr()
    assert captured.err.count("failed: broken seed 1: exit code 2, error: classes:L,SIZE must") == 1
    lines = {line.split("  ")[0]: line.split() for line in captured.out.splitlines()}
    assert lines["FedAvg"][1:4] == ["90.5", "±", "0.5"]
    assert lines["FedProx"][-1] == "1"
    assert lines["broken"] == ["broken", "*", "not", "run", "–", "0"]
    assert lines["FedProx"][-2] == "–"  # embedded data have no difference
    warning = "embedded data stand in for mnist: figures say nothing about the real set"
    assert captured.err.count(warning) == captured.out.count(warning) == 1
    for row, seed in (("average", 0), ("average", 1), ("proximal", 1)):
        run = place / row / f"seed-{seed}"
        if row == "average" and seed == 0 and run not in done:
            continue  # seed 1 was the first to be finished
        assert json.loads((run / "summary.json").read_text())["rounds"] == 2
        assert json.loads((run / "config.json").read_text())["settings"]["seed"] == seed
        assert (run / "curves.png").exists()
    document = json.loads((place / "recipe.json").read_text())
    assert document["recipe"] == "own/tiny"
    assert [row["id"] for row in document["rows"]] == ["average", "proximal", "broken"]
    assert document["rows"][0]["paper"] == {"value": 90.5, "spread": 0.5, "text": "90.5 ± 0.5"}
    assert document["metric"]["unit"] == "%"
    assert str(tmp_path) not in json.dumps(document)


WRONG = {
    "unknown recipe": ["--recipe=embracing/table11"],
    "unknown row": ["--only=case11"],
    "scale": ["--scale=2"],
    "no number": ["--scale=small"],
    "no seeds": ["--seeds=0"],
    "no jobs": ["--jobs=0"],
    "no real data": ["--scale=1"],
    "unknown flag": ["--onyl=case1"],
    "algorithm": ["--algo=fedavg"],
    "preset": ["--preset=paper"],
    "partition": ["--partition=random"],
    "folder that is a file": [f"--output_dir={os.devnull}/results"],
}


@pytest.mark.parametrize("args", WRONG.values(), ids=WRONG.keys())
def test_bad_input_is_one_line_and_exit_code_2(args, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["--recipe=embracing/table3", "--scale=0.1", "--data=embedded", *args]
    assert run_experiment.main([*arguments]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    assert list(tmp_path.iterdir()) == []


def test_flags_of_recipes_need_one(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_experiment.main(["--task=mnist", "--only=case1"]) == 2
    assert "must be given with recipe" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
