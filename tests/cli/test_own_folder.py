"""Every command in a folder that has packages `models` and `tasks` of its own."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.report.report_folders import write_run

ROOT = pathlib.Path(__file__).parents[2]
SMALL = ("--batches=1", "--examples=20", "--vectors=3")


@pytest.fixture
def folder(tmp_path):
    for name in ("models", "tasks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('a package of the user')")
    return tmp_path


def run(folder, *arguments):
    """What a command of `python` prints; it must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "command", ["compare", "costs", "plots", "report", "runtime.worker", "similarity"]
)
def test_help(folder, command):
    assert run(folder, "-m", f"tff_partial.{command}", "--help").startswith("usage: ")


def test_costs(folder):
    assert "softmax, input" in run(folder, "-m", "tff_partial.costs", "--model=softmax")


def test_results(folder):
    write_run(folder / "results" / "a", [0.5, 0.75])
    assert "0.75" in run(folder, "-m", "tff_partial.compare", "results/a")
    run(folder, "-m", "tff_partial.plots", "results/a")
    run(folder, "-m", "tff_partial.report", "results")
    assert (folder / "curves.png").stat().st_size > 0
    assert "75" in (folder / "report.html").read_text()


def test_runs(folder):
    assert "resnet20" in run(folder, ROOT / "run_experiment.py", "--list")
    flags = ["--task=synthetic", "--data=embedded", "--clients=2", "--rounds=1", "--output_dir=out"]
    run(folder, "-m", "tff_partial.similarity", *flags, "--measure_every=1", *SMALL)
    assert "softmax" in (folder / "out" / "config.json").read_text()


# A layer of ours with a rule for its channels, Keras's registration, and pickled objects that
# another process can read.
USE = """
import pickle, subprocess, sys
from tff_partial.experiments import bundled
from tff_partial.submodels import groups
assert bundled.models.__name__ == "tff_partial.experiments.bundled.models"
model = bundled.create_model("four_conv_cnn", (8, 8, 1), 10, 0.1, "static")
assert len(groups.analyse(model).groups) == 4
import tensorflow as tf
layer = bundled.models.create("bilstm", (4,), 2, 0.1).layers[1]
again = tf.keras.layers.deserialize(tf.keras.layers.serialize(layer))
assert type(again) is type(layer)
settings = pickle.dumps(bundled.tasks.TASKS["mnist"].demo)
print(subprocess.run(
    [sys.executable, "-c", f"import pickle; print(pickle.loads({settings!r}).model)"],
    capture_output=True, check=True, text=True,
).stdout)
"""


def test_models_and_tasks_are_ours(folder):
    assert run(folder, "-c", USE).strip() == "mlp_200"


def test_they_have_their_own_names_elsewhere():
    code = "import models, tasks; from tff_partial.experiments import bundled; "
    code += "print(bundled.models is models, bundled.tasks is tasks)"
    assert run(ROOT, "-c", code).split() == ["True", "True"]
