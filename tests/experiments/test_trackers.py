"""Results sent to MLflow and Weights & Biases."""

import json
import os
import pathlib
import subprocess
import sys
import types

import pytest

from tests.experiments import fake_mlflow
from tff_partial.cli import run as run_experiment
from tff_partial.experiments import trackers
from tff_partial.experiments.loop import Interrupted
from tff_partial.experiments.trackers import Tracking

ROOT = pathlib.Path(__file__).parents[2]
SETTINGS = {"task": "mnist", "rounds": 4, "target_accuracy": None, "model": "x" * 600}
PACKAGES = os.environ.get("TRACKER_PACKAGES", "")


@pytest.fixture
def runs(monkeypatch):
    """The runs of a stand-in for MLflow."""
    monkeypatch.setitem(sys.modules, "mlflow", fake_mlflow)
    monkeypatch.setattr(fake_mlflow, "RUNS", {})
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("GIT_PYTHON_REFRESH", "quiet")
    return fake_mlflow.RUNS


def row(done):
    return {"round": done, "train_loss": 1 / done, "test_loss": "", "seconds": 0.5}


def write_rows(folder, done):
    lines = [f"{n},{1 / n},,0.5" for n in range(1, done + 1)]
    text = "\r\n".join(["round,train_loss,test_loss,seconds", *lines, ""])
    (folder / "metrics.csv").write_text(text)


def train(folder, done, to, error=None, text="mlflow:runs"):
    """Rounds from `done` on, as the loop calls a callback."""
    tracking = Tracking(text, str(folder), SETTINGS)
    tracking.on_start(done)
    for number in range(done + 1, to + 1):
        write_rows(folder, number)
        tracking.on_round(number, row(number))
    if error is not None:
        tracking.on_error(error)
    tracking.on_end()


def test_a_run_has_its_settings_and_its_rounds(runs, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    train(folder, 0, 4)
    [run] = runs.values()
    assert (run.experiment, run.name, run.status) == ("mnist", "mine", "FINISHED")
    assert run.params == {"task": "mnist", "rounds": "4", "model": "x" * 500}
    assert run.steps("train_loss") == run.steps("seconds") == [1, 2, 3, 4]
    assert [m.value for m in run.metrics if m.key == "train_loss"] == [1, 1 / 2, 1 / 3, 1 / 4]
    assert {metric.key for metric in run.metrics} == {"train_loss", "seconds"}  # no empty cells


@pytest.mark.parametrize(
    ("error", "state"), [(Interrupted(3, 2), "KILLED"), (ValueError("loss"), "FAILED")]
)
def test_a_resumed_run_continues_the_same_one_without_repeating_rounds(
    error, state, runs, tmp_path
):
    train(tmp_path, 0, 3, error)
    [run] = runs.values()
    assert run.status == state
    train(tmp_path, 2, 4)  # from the checkpoint of round 2
    assert [*runs.values()] == [run]
    assert (run.steps("train_loss"), run.status) == ([1, 2, 3, 4], "FINISHED")


def test_rounds_that_the_tracker_lacks_are_sent_at_the_next_start(runs, tmp_path):
    write_rows(tmp_path, 3)  # of a start without a tracker
    train(tmp_path, 2, 4)
    [run] = runs.values()
    assert run.steps("train_loss") == [1, 2, 3, 4]
    runs.clear()  # somebody deleted it
    train(tmp_path, 4, 4)
    assert [run.steps("train_loss") for run in runs.values()] == [[1, 2, 3, 4]]
    train(tmp_path, 4, 4, text="mlflow:others")  # another place has a run of its own
    assert [run.steps("train_loss") for run in runs.values()] == [[1, 2, 3, 4]] * 2


def test_a_tracker_that_fails_later_is_one_warning(runs, tmp_path, capsys, monkeypatch):
    def fail(*unused, **unused_too):
        raise fake_mlflow.MlflowException("gone\naway")

    tracking = Tracking("mlflow:runs", str(tmp_path), SETTINGS)
    tracking.on_start(0)
    monkeypatch.setattr(fake_mlflow.MlflowClient, "log_batch", fail)
    tracking.on_round(1, row(1))
    tracking.on_round(2, row(2))
    tracking.on_end()
    (line,) = capsys.readouterr().err.split("\n")[1:-1]
    assert line == "warning: the tracker lacks rounds: gone away"


def test_one_that_cannot_be_reached_is_an_error(runs, tmp_path):
    with pytest.raises(OSError, match="tracker must be reachable. Received: mlflow:http://nowhere"):
        train(tmp_path, 0, 1, text="mlflow:http://nowhere")
    assert not (tmp_path / trackers.FILE).exists()


def test_credentials_are_not_written(runs, tmp_path):
    train(tmp_path, 0, 1, text="mlflow:http://me:secret@host:5000")
    written = json.loads((tmp_path / trackers.FILE).read_text())
    assert written == {"tracker": "mlflow:http://host:5000", "run": "0"}


class FakeWandb(types.ModuleType):
    """What we call of wandb: `init`, and of a run `id`, `step`, `log` and `finish`."""

    def __init__(self):
        super().__init__("wandb")
        self.runs, self.given, self.exit_codes = {}, [], []

    def init(self, project=None, id=None, name=None, config=None, dir=None, resume=None):
        self.given.append((project, name, resume, config))
        self.id, logged = id, self.runs.setdefault(id, [])
        self.step = logged[-1][0] + 1 if logged else 0
        return self

    def log(self, data, step=None):
        self.runs[self.id].append((step, data))

    def finish(self, exit_code=None):
        self.exit_codes.append(exit_code)


def test_weights_and_biases(tmp_path, monkeypatch):
    wandb = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    train(tmp_path, 0, 3, Interrupted(3, 2), text="wandb")
    train(tmp_path, 2, 4, text="wandb")
    [logged] = wandb.runs.values()
    assert [step for step, _ in logged] == [1, 2, 3, 4]
    assert logged[1][1] == {"train_loss": 1 / 2, "seconds": 0.5}
    assert wandb.exit_codes == [1, 0]
    assert wandb.given == [("tff_partial", tmp_path.name, "allow", SETTINGS)] * 2


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("mlflow:runs", "pip install mlflow-skinny. Received: tracker='mlflow:runs'"),
        ("wandb", "pip install wandb. Received: tracker='wandb'"),
        ("mlflow", "Received: tracker='mlflow'"),
        ("wandb:", "Received: tracker='wandb:'"),
        ("mlfow:runs", "Received: tracker='mlfow'. Did you mean mlflow?"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_written(
    text, end, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    find = trackers.importlib.util.find_spec
    missing = {"mlflow", "wandb"}
    monkeypatch.setattr(
        trackers.importlib.util, "find_spec", lambda n, *a: None if n in missing else find(n, *a)
    )
    assert run_experiment.main(["--task=mnist", "--data=embedded", f"--tracker={text}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: tracker")
    assert line.endswith(end)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(not PACKAGES, reason="make test-tracker has the real MLflow")
def test_with_the_real_mlflow(tmp_path):
    """A run of two rounds, extended in a second start, in a folder of MLflow's own format."""
    command = [sys.executable, str(ROOT / "run_experiment.py"), "--task=mnist", "--data=embedded"]
    command += ["--model=softmax", "--clients=4", "--clients_per_round=2", "--local_steps=1"]
    command += [f"--tracker=mlflow:{tmp_path / 'runs'}", f"--output_dir={tmp_path / 'mine'}"]
    environment = {**os.environ, "PYTHONPATH": PACKAGES}
    for rounds in (2, 3):
        subprocess.run([*command, f"--rounds={rounds}"], check=True, env=environment)
    reading = """
import sys, mlflow
client = mlflow.MlflowClient(tracking_uri=sys.argv[1])
[run] = client.search_runs([client.get_experiment_by_name("mnist").experiment_id])
steps = [metric.step for metric in client.get_metric_history(run.info.run_id, "train_loss")]
print(run.info.status, run.info.run_name, run.data.params["clients"], steps)
"""
    uri = (tmp_path / "runs").as_uri()
    environment["MLFLOW_ALLOW_FILE_STORE"] = "true"
    told = subprocess.run(
        [sys.executable, "-c", reading, uri], check=True, env=environment, stdout=subprocess.PIPE
    )
    assert told.stdout.decode().strip() == "FINISHED mine 4 [1, 2, 3]"
