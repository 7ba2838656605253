"""The command line as a user meets it: errors, files, kill and resume."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import portpicker
import pytest
from absl import flags

from tests.cli.small_runs import SMALL, rows, weights, without_seconds
from tff_partial.algorithms import registry
from tff_partial.cli import run as run_experiment
from tff_partial.experiments import components, config
from tff_partial.runtime.workers import process as worker_process

ROOT = pathlib.Path(__file__).parents[2]


pytestmark = pytest.mark.usefixtures("keep_runtime")


def start(*args, **options):
    """Starts a run in a process of its own, output to files, so that no pipe can hang."""
    command = [sys.executable, "run_experiment.py", *args]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, **options)


def run_to_end(folder, *args):
    with open(f"{folder}.log", "w") as log:
        process = start(*SMALL, *args, f"--output_dir={folder}", stdout=log, stderr=log)
        code = process.wait(timeout=300)
    assert code == 0, pathlib.Path(f"{folder}.log").read_text()[-3000:]


def wait_for_rows(folder, count, process):
    deadline = time.monotonic() + 240
    while len(rows(folder)) < count:
        assert process.poll() is None, "the run ended too early"
        assert time.monotonic() < deadline, "the run makes no progress"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that was never stopped."""
    folder = tmp_path_factory.mktemp("runs") / "undisturbed"
    run_to_end(folder, "--rounds=30")
    return folder


def test_files_of_a_run(finished):
    config = json.loads((finished / "config.json").read_text())
    assert config["settings"]["model"] == "softmax"
    assert config["versions"]["tensorflow-federated"] == "0.87.0"
    assert len(config["versions"]["revision"]) >= 7
    summary = json.loads((finished / "summary.json").read_text())
    assert summary["rounds"] == 30
    assert summary["data"].startswith("embedded")
    table = rows(finished)
    assert [int(r["round"]) for r in table] == list(range(1, 31))
    columns = ["round", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "seconds"]
    assert set(columns) <= set(table[0])
    assert [bool(r["test_accuracy"]) for r in table[:4]] == [False, True, False, True]
    assert summary["final_test_accuracy"] == float(table[-1]["test_accuracy"])
    assert float(table[-1]["train_loss"]) < float(table[0]["train_loss"])
    assert (finished / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert list((finished / "tensorboard").iterdir())
    assert sorted(p.name for p in (finished / "checkpoints").iterdir()) == [
        "round_28.npz",
        "round_30.npz",
    ]


def test_one_seed_one_result(finished, tmp_path):
    run_to_end(tmp_path / "again", "--rounds=30")
    assert without_seconds(tmp_path / "again") == without_seconds(finished)
    assert weights(tmp_path / "again") == weights(finished)


@pytest.mark.slow
def test_killed_run_goes_on_bit_for_bit(finished, tmp_path):
    folder = tmp_path / "killed"
    for progress in (5, 14):
        with open(tmp_path / "log", "w") as log:
            process = start(*SMALL, "--rounds=30", f"--output_dir={folder}", stdout=log, stderr=log)
            wait_for_rows(folder, progress, process)
            process.kill()
            process.wait()
    run_to_end(folder, "--rounds=30")
    assert without_seconds(folder) == without_seconds(finished)
    assert weights(folder) == weights(finished)


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["fedumf_feddc", "partial_averaging"])
def test_killed_run_with_client_states_on_disk_goes_on_bit_for_bit(algo, tmp_path):
    args = [*SMALL, f"--algo={algo}", "--rounds=16", "--learning_rate=0.1*0.9"]
    on_disk = ["--client_state=disk", "--client_state_cache=2"]
    with open(tmp_path / "log", "w") as log:
        process = start(*args, f"--output_dir={tmp_path / 'whole'}", stdout=log, stderr=log)
        assert process.wait(timeout=240) == 0
        folder = tmp_path / "killed"
        command = [*args, *on_disk, f"--output_dir={folder}"]
        process = start(*command, stdout=log, stderr=log)
        wait_for_rows(folder, 5, process)
        process.kill()
        process.wait()
        assert start(*command, stdout=log, stderr=log).wait(timeout=240) == 0
    assert without_seconds(folder) == without_seconds(tmp_path / "whole")
    assert weights(folder) == weights(tmp_path / "whole")
    column = "discrepancy" if algo == "partial_averaging" else "test_accuracy_all_clients"
    assert float(rows(folder)[-1][column]) > 0


def test_a_run_of_another_version_is_refused(tmp_path, capsys):
    args = [*SMALL, "--algo=scaffold", "--rounds=2", f"--output_dir={tmp_path / 'run'}"]
    assert run_experiment.main(args) == 0
    kept = sorted((tmp_path / "run" / "client_states" / "0").iterdir())
    (tmp_path / "run" / "checkpoints" / "round_2.npz").unlink()
    (tmp_path / "run" / "checkpoints" / "round_2").mkdir()  # as older versions wrote them
    capsys.readouterr()
    assert run_experiment.main(args) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("error: ")
    assert "Received: round_2; a run of another version cannot be resumed" in said
    assert sorted((tmp_path / "run" / "client_states" / "0").iterdir()) == kept


@pytest.mark.slow
def test_ctrl_c_finishes_the_files_and_exits_130(finished, tmp_path):
    folder = tmp_path / "interrupted"
    with open(tmp_path / "log", "w") as log:
        process = start(*SMALL, "--rounds=30", f"--output_dir={folder}", stdout=log, stderr=log)
        wait_for_rows(folder, 4, process)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130
    summary = json.loads((folder / "summary.json").read_text())
    assert 4 <= summary["rounds"] < 30
    assert (folder / "curves.png").exists()
    assert (folder / "checkpoints" / f"round_{summary['rounds']}.npz").is_file()
    run_to_end(folder, "--rounds=30")
    assert without_seconds(folder) == without_seconds(finished)
    assert weights(folder) == weights(finished)


def test_other_settings_in_the_same_folder_are_refused(finished, capsys):
    before = (finished / "config.json").read_bytes()
    args = [*SMALL, "--rounds=30", "--learning_rate=0.3", f"--output_dir={finished}"]
    assert run_experiment.main([*args]) == 2
    error = capsys.readouterr().err
    assert "learning_rate=" in error
    assert "'0.3' now" in error
    assert "seed" not in error
    assert (finished / "config.json").read_bytes() == before


def test_a_pipe_returns_and_no_process_remains(tmp_path):
    folder = tmp_path / "piped"
    arguments = " ".join([*SMALL, "--rounds=2", "--runtime=local_cpp", f"--output_dir={folder}"])
    done = subprocess.run(
        f"{sys.executable} run_experiment.py {arguments} 2>&1 | tail -n 3",
        shell=True,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert "results" in done.stdout


BAD = {
    "unknown task": ["--task=minst"],
    "unknown algorithm": ["--algo=fedsgd"],
    "unknown model": ["--model=resnet21"],
    "unknown preset": ["--preset=big"],
    "unknown runtime": ["--runtime=gpu"],
    "unknown data": ["--data=web"],
    "unknown partition": ["--partition=random"],
    "unknown flag": ["--learning_rat=0.1"],
    "negative number": ["--rounds=-3"],
    "zero": ["--clients=0"],
    "no number": ["--batch_size=many"],
    "unknown precision": ["--precision=float64"],
    "record precision": ["--record_precision=float16"],
    "models in bfloat16": ["--algo=partial_averaging", "--record_precision=bfloat16"],
    "negative rate": ["--learning_rate=-0.1"],
    "momentum of one": ["--momentum=1.0"],
    "negative weight decay": ["--weight_decay=-1"],
    "unknown rule of weight decay": ["--weight_decay_on=biases"],
    "more per round than clients": ["--clients=4", "--clients_per_round=5"],
    "steps and epochs": ["--local_steps=1", "--local_epochs=1"],
    "width": ["--width=1.5"],
    "model that does not fit": ["--task=imdb", "--model=resnet20"],
    "normalization without": ["--model=mlp_200", "--normalization=batch"],
    "tiers": ["--tiers=weak:3"],
    "no tiers": ["--tiers=medium"],
    "tiers that do not add up": ["--algo=embracing", "--tiers=strong:1,weak:1"],
    "more blocks than there are": ["--algo=embracing", "--tiers=strong:10,9:10"],
    "capacity that no cut has": ["--algo=fedpmt", "--tiers=strong:10,0.0001:10"],
    "only tiers that are not there": ["--algo=embracing", "--only_tiers=huge"],
    "only tiers without tiers": ["--only_tiers=strong"],
    "too few in these tiers": [
        "--algo=embracing",
        "--tiers=strong:1,weak:19",
        "--only_tiers=strong",
    ],
    "one of them twice": ["--algo=embracing", "--only_tiers=strong,strong"],
    "record folder": ["--algo=embracing", f"--embracing_record_dir={os.devnull}/record"],
    "speed": ["--device_speeds=0.5,0"],
    "tiny speed": ["--device_speeds=1e-320"],
    "deadline": ["--round_deadline=-1"],
    "more examples than there are": ["--train_examples=1000000"],
    "hyperparameter": ["--fedavg_weighting=size"],
    "logits to a robust mean": ["--algo=feddse", "--feddse_distill=9", "--aggregation=robust"],
    "fusion": ["--algo=fedumf", "--fedumf_alpha=1.5"],
    "norm": ["--clip_norm=0"],
    "place of client states": ["--algo=scaffold", "--client_state=tape"],
    "cache of client states": ["--algo=scaffold", "--client_state_cache=0"],
    "cache without disk": ["--algo=scaffold", "--client_state_cache=3"],
    "deadline that nobody meets": ["--round_deadline=0.001"],
    "infinite weight decay": ["--weight_decay=inf"],
    "weight decay of no number": ["--weight_decay=nan"],
    "rate beyond float32": ["--learning_rate=1e40"],
    "rate that is 0 in float32": ["--learning_rate=1e-50"],
    "rate of no number": ["--learning_rate=nan"],
    "later rate beyond float32": ["--learning_rate=0.1,5:1e40"],
    "momentum of no number": ["--momentum=nan"],
    "clipping of no number": ["--clip_norm=nan"],
    "clipping beyond float32": ["--clip_norm=1e40"],
    "infinite server rate": ["--fedavg_server_learning_rate=inf"],
    "server rate beyond float32": ["--fedavg_server_learning_rate=1e40"],
    "paper without preset": ["--paper=fedumf"],
    "paper on embedded data": ["--preset=paper", "--data=embedded"],
    "paper without data": ["--preset=paper", "--data=auto", "--data_dir=nowhere"],
    "more clients than examples": ["--clients=1000000", "--partition=iid"],
    "workers without remote": ["--workers=localhost:1"],
    "remote without workers": ["--runtime=remote"],
    "parallelism without in_process": ["--runtime=local_cpp", "--client_parallelism=2"],
    "folder that is a file": [f"--output_dir={os.devnull}/results"],
    "folder of others": [f"--output_dir={ROOT / 'tests'}"],
    "word": ["train"],
    "seed": ["--seed=-1"],
    "target": ["--target_accuracy=95"],
    "steps without end": ["--local_steps=100000000000000000000"],
    "steps that fill the memory": ["--local_steps=2000000000"],
    "epochs without end": ["--local_epochs=2000000000"],
    "batch that fills the memory": ["--batch_size=2000000000"],
    "alpha of which NumPy draws for ever": ["--partition=dirichlet:1e-300"],
    "clients that fill the memory": ["--partition=bootstrap:100000000000"],
    "population that fills the memory": ["--partition=bootstrap:1", "--clients=1000000000"],
    "capacity over nothing": ["--algo=heterofl", "--capacities=1/00"],
    "two lines": ["--task=mni\nst"],
}


@pytest.mark.parametrize("args", BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_line_and_exit_code_2(args, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["--task=mnist", "--algo=fedavg", "--data=embedded", "--rounds=1", *args]
    assert run_experiment.main([*arguments]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ")
    assert list(tmp_path.iterdir()) == []


def test_nothing_but_the_line_is_printed_by_a_process_of_its_own(tmp_path):
    with open(tmp_path / "log", "w") as log:
        process = start(
            *SMALL, "--rounds=1", f"--output_dir={ROOT / 'tests'}", stdout=log, stderr=log
        )
        assert process.wait(timeout=120) == 2
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 1, lines


def test_help_and_list_answer_without_tensorflow():
    code = (
        "import sys; from tff_partial.cli import run; c = run.main(['{}']); "
        "heavy = [m for m in ('tensorflow', 'sklearn', 'matplotlib') if m in sys.modules]; "
        "sys.exit(c or bool(heavy))"
    )
    for flag in ("--help", "--list"):
        done = subprocess.run(
            [sys.executable, "-c", code.format(flag)], cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        for name in ("fedavg", "imdb", "resnet20"):
            assert name in done.stdout


def start_worker():
    port = portpicker.pick_unused_port()
    return worker_process.WorkerProcess(worker_process.worker_command(port), port)


@pytest.mark.slow
def test_lost_workers_are_an_error_and_the_run_goes_on_with_others(finished, tmp_path):
    folder = tmp_path / "remote"
    first, second = start_worker(), start_worker()
    try:
        args = [*SMALL, "--rounds=30", "--runtime=remote", f"--output_dir={folder}"]
        with open(tmp_path / "log", "w") as log:
            process = start(*args, f"--workers=localhost:{first.port}", stdout=log, stderr=log)
            wait_for_rows(folder, 4, process)
            first.stop()
            assert process.wait(timeout=120) == 1
        assert "error: " in (tmp_path / "log").read_text()
        done = len(rows(folder))
        assert 4 <= done < 30
        assert (folder / "checkpoints" / f"round_{done}.npz").is_file()
        run_to_end(folder, "--rounds=30", "--runtime=remote", f"--workers=localhost:{second.port}")
    finally:
        first.stop()
        second.stop()
    losses = [[float(r["train_loss"]) for r in rows(f)] for f in (folder, finished)]
    np.testing.assert_allclose(*losses, atol=1e-4)


def test_costs_of_tiers_are_columns_and_late_clients_are_dropped(tmp_path):
    """FedPMT on five speeds: nobody is late; FedAvg's three slowest are (its section V-B)."""
    args = ["--task=mnist", "--data=embedded", "--model=fedpmt_fcnn", "--clients=10"]
    args += ["--clients_per_round=10", "--rounds=2", "--partition=iid", "--local_epochs=1"]
    args += ["--device_speeds=0.2,0.25,0.33,0.5,1", "--round_deadline=26.5"]
    found = {}
    for algo, tiers in (("fedavg", []), ("fedpmt", ["--tiers=4:2,3:2,2:2,1:2,strong:2"])):
        folder = tmp_path / algo
        flags = [*args, *tiers, f"--algo={algo}", f"--output_dir={folder}"]
        assert run_experiment.main([*flags]) == 0
        found[algo] = rows(folder)[0]
    assert [int(found[a]["clients_late"]) for a in ("fedavg", "fedpmt")] == [6, 0]
    assert float(found["fedavg"]["simulated_seconds"]) == 26.5
    assert float(found["fedpmt"]["simulated_seconds"]) < 26.5
    assert found["fedpmt"]["clients_4"] == "2"
    sizes = (784, 400, 300, 200, 100, 10)
    parameters = sum(a * b + b for a, b in zip(sizes, sizes[1:]))
    assert int(found["fedavg"]["bytes_down"]) == 10 * 4 * parameters
    assert int(found["fedavg"]["bytes_up"]) == 4 * 4 * parameters
    assert int(found["fedpmt"]["bytes_up"]) < int(found["fedpmt"]["bytes_down"])
    assert float(found["fedpmt"]["train_accuracy_strong"]) > 0


def test_a_single_tier_and_a_deadline_that_nobody_meets(tmp_path, capsys):
    args = ["--task=mnist", "--algo=embracing", "--data=embedded", "--model=mlp_100", "--rounds=2"]
    args += ["--clients=4", "--clients_per_round=2"]
    alone = [*args, "--tiers=strong:4", f"--output_dir={tmp_path / 'alone'}"]
    assert run_experiment.main([*alone]) == 0
    summary = json.loads((tmp_path / "alone" / "summary.json").read_text())
    assert summary["train_accuracy_strong"] > 0
    assert summary["average_capacity"] == 1.0
    # One of 30 clients is fast enough, and is not drawn.
    late = [*args, "--clients=30", "--tiers=strong:30", f"--output_dir={tmp_path / 'late'}"]
    speeds = ",".join(["1", *["0.01"] * 29])
    late += [f"--device_speeds={speeds}", "--round_deadline=20"]
    assert run_experiment.main([*late]) == 0
    table = rows(tmp_path / "late")
    assert [row["train_loss"] for row in table] == ["", ""]
    assert [row["clients_late"] for row in table] == ["2", "2"]
    assert len({row["test_loss"] for row in table}) == 1
    assert "warning: no client was in time in any round" in capsys.readouterr().err


def test_only_some_tiers_take_part(tmp_path):
    args = ["--task=mnist", "--algo=embracing", "--data=embedded", "--model=mlp_100", "--rounds=2"]
    args += ["--clients=8", "--clients_per_round=2", "--tiers=strong:3,weak:5"]
    args += ["--only_tiers=strong", f"--output_dir={tmp_path / 'out'}"]
    assert run_experiment.main([*args]) == 0
    assert {row["clients_weak"] for row in rows(tmp_path / "out")} == {"0"}
    assert {row["clients_strong"] for row in rows(tmp_path / "out")} == {"2"}
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["average_capacity"] == 1.0


def test_saved_weights_of_static_batch_norm_are_those_that_were_evaluated(tmp_path):
    args = ["--task=mnist", "--algo=fedavg", "--data=embedded", "--model=four_conv_cnn"]
    args += ["--width=0.05", "--normalization=static", "--clients=6", "--clients_per_round=2"]
    args += ["--local_steps=3", "--rounds=2", f"--output_dir={tmp_path}"]
    assert run_experiment.main([*args]) == 0
    settings = {"model": "four_conv_cnn", "width": 0.05, "clients": 6, "clients_per_round": 2}
    task = config.create("mnist", "fedavg", normalization="static", **settings)
    data = components.load_data(task, "embedded", None, log=lambda line: None)
    model = components.create_model(task, data).instantiate()
    with np.load(tmp_path / "weights.npz") as arrays:
        for variable, name in zip([*model.trainable, *model.statistics], arrays):
            variable.assign(arrays[name])
    logits = model.forward(model.preprocess(data.test_x), training=False)
    loss = float(np.mean(model.losses(data.test_y.astype(np.int32), logits)))
    assert loss == pytest.approx(float(rows(tmp_path)[-1]["test_loss"]), rel=1e-4)


def test_help_says_what_every_hyperparameter_means():
    values = flags.FlagValues()
    run_experiment.define_flags(values)
    for algo, algorithm in registry.ALGORITHMS.items():
        for hyperparameter in algorithm.hyperparameters:
            line = values[f"{algo}_{hyperparameter.name}"].help
            assert re.fullmatch(r"[A-Z`].{10,} Default: .+\.", line), line


@pytest.mark.parametrize("algo", registry.ALGORITHMS)
def test_describe(algo, capsys):
    assert run_experiment.main([f"--describe={algo}", "--task=mnist"]) == 0
    text = capsys.readouterr().out
    algorithm = registry.ALGORITHMS[algo]
    assert text.startswith(f"{algo}: {algorithm.title}\n")
    for hyperparameter in algorithm.hyperparameters:
        assert f"--{algo}_{hyperparameter.name}: " in text
    assert ("\n  --tiers" in text) == ("tiers" in algorithm.needs)
    assert "\n  --model=mlp_200\n" in text


def test_describe_names_what_there_is(capsys):
    assert run_experiment.main(["--describe=fedsgd"]) == 2
    assert "algo must be one of" in capsys.readouterr().err
