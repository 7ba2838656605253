"""Running a recipe: processes, locks, signals, failures; and its command line."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import types

import pytest
from absl import flags

import tasks
from tff_partial.cli import run as run_experiment
from tff_partial.experiments import config
from tff_partial.recipes import estimate, runner, schema
from tff_partial.recipes import outcome as recipe_results
from tff_partial.recipes import plan as recipe_plan
from tff_partial.similarity import tables

ROOT = pathlib.Path(__file__).parents[2]
# Stands for a run: rounds that take some time, then the files of a finished run.
FAKE = """
import json, os, pathlib, sys, time
folder, rounds, seconds, message = pathlib.Path(sys.argv[1]), *sys.argv[2:]
folder.mkdir(parents=True, exist_ok=True)
with open(folder / "starts", "a") as file:
    file.write(f"{os.getpid()}\\n")
for done in range(1, int(rounds) + 1):
    time.sleep(float(seconds))
    (folder / "metrics.csv").write_text("round\\n" + "1\\n" * done)
if message.startswith("diverged"):
    (folder / "summary.json").write_text(json.dumps({"diverged_at_round": int(rounds)}))
if message:
    sys.exit(f"error: {message}")
(folder / "weights.npz").write_text("")
(folder / "curves.png").write_text("")
(folder / "summary.json").write_text(json.dumps({"rounds": int(rounds)}))
"""


def fake_run(folder, name, rounds=2, seconds=0.01, message=""):
    row = schema.Row(name, name)
    place = folder / name / "seed-0"
    arguments = ("-c", FAKE, str(place), str(rounds), str(seconds), message)
    experiment = types.SimpleNamespace(
        settings=types.SimpleNamespace(rounds=rounds, target_accuracy=None)
    )
    log = folder / "logs" / f"{name}.log"
    return recipe_plan.Run(row, 0, arguments, place, log, experiment, is_embedded=True)


def starts(run):
    return [int(pid) for pid in (run.folder / "starts").read_text().split()]


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


def test_rows_that_diverge_are_marked_and_not_run_again(tmp_path, capsys, monkeypatch):
    runs = [fake_run(tmp_path, "a", message="diverged"), fake_run(tmp_path, "b")]
    metric = schema.Metric("rounds", "rounds", "", None)
    recipe = types.SimpleNamespace(name="own/tiny", kind="runs", metric=metric)
    plan = types.SimpleNamespace(
        recipe=recipe, runs=runs, rows=[run.row for run in runs], folder=tmp_path, document={}
    )
    monkeypatch.setattr(recipe_plan, "create", lambda options: plan)
    monkeypatch.setattr(runner.document, "write", lambda folder, document: None)
    for _ in range(2):
        assert runner.main(types.SimpleNamespace(given={})) == 1
        captured = capsys.readouterr()
        lines = captured.out.splitlines()
        assert lines[-2].split() == ["a", *["diverged", "in", "round", "2"], "1"]
        assert lines[-1].split() == ["b", "2", "1"]
        assert "diverged: a seed 0: in round 2; it is not run again" in captured.err
        assert "failed: " not in captured.err
        assert [len(starts(run)) for run in runs] == [1, 1]
    with_others = recipe_results._ours(metric, runs)
    assert with_others == "2 (1 of 2 diverged)"


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


def test_a_run_that_another_process_works_on_is_waited_for(tmp_path):
    run = fake_run(tmp_path, "a", rounds=10, seconds=0.1)
    other = runner._start(run, jobs=1)
    wait_until((run.folder / "starts").exists)
    assert runner._start(run, jobs=1) is None
    assert runner.run_all([run], jobs=1).failed == []
    assert len(starts(run)) == 1
    assert other.wait() == 0


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


def test_analyses_count_the_rounds_of_every_scheme_and_print_what_they_found(tmp_path):
    options = recipe_plan.Options(
        "embracing/figure3", 0.1, given={"data": "embedded", "output_dir": str(tmp_path)}
    )
    plan = recipe_plan.create(options)
    [run] = plan.runs
    assert (run.rounds, run.total_rounds) == (10, 30)
    for scheme, rounds in (("second_half", 10), ("channel", 4)):
        (run.folder / scheme).mkdir(parents=True)
        (run.folder / scheme / "metrics.csv").write_text("round\n" + "1\n" * rounds)
    assert runner._rounds_done(run) == 14
    assert "|" not in recipe_results.similarities(plan)
    rows = [
        dict(zip(tables.COLUMNS, (scheme, 20, 0, "conv", 0.5, 0.25, 8))) for scheme in run.schemes
    ]
    tables.write_csv(str(run.folder / "similarity.csv"), rows)
    assert tables.read_csv(str(run.folder / "similarity.csv")) == rows
    assert runner._rounds_done(run) == 30
    printed = recipe_results.similarities(plan)
    assert "cifar10 seed 0\n\n| block | second_half | channel | first_half |" in printed
    assert "| 0 conv | 0.500 | 0.500 | 0.500 |" in printed


TINY = """
title = "Table 0: a tiny one"
paper = "Nobody, 2024"
kind = "runs"
notes = ["A note."]

[metric]
name = "best_test_accuracy"
label = "best test accuracy"
unit = "%"
higher_is_better = true

[settings]
task = "mnist"
paper = "fedumf"
model = "softmax"
clients_per_round = 20

[[rows]]
id = "average"
label = "FedAvg"
settings = { algo = "fedavg" }
paper = "90.5 ± 0.5"

[[rows]]
id = "proximal"
label = "FedProx"
settings = { algo = "fedprox", fedprox_mu = 0.1 }
paper = "91"

[[rows]]
id = "broken"
label = "broken"
settings = { algo = "fedavg", partition = "classes:20" }
paper = "*"
"""


@pytest.fixture
def tiny(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "tiny.toml").write_text(TINY)
    return [
        f"--recipe={folder / 'tiny.toml'}",
        "--scale=0.013",
        "--data=embedded",
        f"--output_dir={tmp_path / 'out'}",
    ]


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
    assert lines["broken"] == ["broken", "*", "-", "0"]
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


def test_rows_of_several_starts_are_merged_and_other_settings_refused(tiny, tmp_path, capsys):
    path = tmp_path / "out" / "own" / "tiny" / "scale-0.013" / "recipe.json"

    def create(*more):
        values = flags.FlagValues()
        run_experiment.define_flags(values)
        values(["run", *tiny, *more])
        options = run_experiment.recipe_options(values)
        found = recipe_plan.create(options)
        runner.document.write(found.folder, found.document)
        return [row["id"] for row in json.loads(path.read_text())["rows"]]

    assert create("--only=proximal") == ["proximal"]
    assert create("--only=average", "--seeds=3") == ["average", "proximal"]
    with pytest.raises(ValueError, match="output_dir must be new or hold this recipe"):
        create("--only=average", "--rounds=7")
    assert [row["id"] for row in json.loads(path.read_text())["rows"]] == ["average", "proximal"]


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
    assert run_experiment.main(["--task=mnist", "--seeds=3"]) == 2
    assert "must be given with recipe" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
