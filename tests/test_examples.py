"""The examples run, and what they show is what the library does."""

import importlib.util
import json
import os
import pathlib
import runpy
import subprocess
import types

import numpy as np
import pytest

from tests import tiny
from tests.algorithms.layer_rounds import build, cohort, create_dense, run
from tff_partial.core.local_training import LocalTraining
from tff_partial.experiments import config, privacy

ROOT = pathlib.Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
# `make notebook` makes it.
NOTEBOOKS = ROOT / ".venv-notebook" / "bin" / "python"
EXECUTE = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
"""
LOCAL = LocalTraining(steps=4, batch_size=5, learning_rate=0.3)
CUT = (0, 1, 2)


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["fedavg", "embracing"])
def test_by_hand_gives_the_librarys_weights(name):
    data, rounds = tiny.client_data(), 3
    built = build(name, LOCAL, weighting="uniform")
    model = create_dense()
    model.build((None, tiny.FEATURES))
    model.set_weights(tiny.flat(built.initialize().global_model_weights))
    records = cohort(data, CUT)
    by_hand = load("fedavg_by_hand")
    arguments = (
        model,
        data,
        [range(3)] * rounds,
        lambda t, client: tiny.batches(records[client], t, LOCAL),
        LOCAL.learning_rate,
    )
    initial = model.get_weights()
    if name == "fedavg":
        by_hand.fedavg(*arguments)
    else:
        by_hand.embracing(*arguments, CUT)
    found = run(built, data, CUT, rounds)
    assert max(np.abs(a - b).max() for a, b in zip(found, initial)) > 0.1
    for a, b in zip(found, model.get_weights()):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_by_hand_learns(capsys):
    load("fedavg_by_hand").main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["FedAvg", "EmbracingFL"]
    for line in lines:
        before, after = (float(word) for word in line.split() if word[0] == "0")
        assert after > before + 0.2


@pytest.mark.parametrize("name", ["client_data.py", "own_model.py"])
def test_scripts_of_users_are_short_and_learn(name, tmp_path, monkeypatch, keep_runtime):
    assert len((EXAMPLES / name).read_text().splitlines()) < 40
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    values = runpy.run_path(str(EXAMPLES / name))
    runs = values["runs"].values() if "runs" in values else [values["result"]]
    for result in runs:
        assert result.rows[-1]["test_accuracy"] > result.rows[0]["test_accuracy"] + 0.1
        assert (tmp_path / result.folder / "curves.png").exists()


def test_algorithms_are_compared_at_equal_memory(tmp_path, monkeypatch, keep_runtime):
    script = EXAMPLES / "compare_algorithms.py"
    assert len(script.read_text().splitlines()) < 40
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(script), "1"])
    values = runpy.run_path(str(script))
    assert [result.summary["rounds"] for result in values["results"]] == [1] * 4
    for result in values["results"]:
        (row,) = result.rows
        assert row["clients_strong"] + row["clients_memory_0.25"] == 8
    folder = tmp_path / values["FOLDER"]
    for name in ("curves.png", "report.html"):
        assert (folder / name).stat().st_size > 1000


def test_private_training_compares_at_equal_memory_and_noise(tmp_path, monkeypatch):
    script, runs = EXAMPLES / "private_training.py", []

    def run(task, algo, output_dir, data, data_dir, **settings):
        experiment = config.create(task, algo, **settings)
        noise, contributors = settings["dp_noise_multiplier"], config.aggregator_of(experiment)
        runs.append((algo, noise, contributors.contributors))
        epsilon = privacy.accounting(experiment.settings).epsilon(experiment.settings.rounds)
        return types.SimpleNamespace(summary={"epsilon": epsilon, "final_test_accuracy": 0.5})

    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "private").mkdir(parents=True)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setattr("sys.argv", [str(script), "folder", "2"])
    monkeypatch.setattr("tff_partial.run", run, raising=False)
    runpy.run_path(str(script))
    assert len(runs) == 12
    # The strong clients take part as often, with and without the others.
    assert {round(contributors[0], 1) for _, _, contributors in runs} == {13.5, 14.0}
    assert (tmp_path / "results" / "private" / "accuracy.png").exists()


def test_the_notebook_is_the_script():
    notebook = json.loads((EXAMPLES / "own_model.ipynb").read_text())
    cells = []
    for cell in notebook["cells"]:
        assert not cell.get("outputs")
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            source = "\n".join(["# %% [markdown]", *(f"# {x}" for x in source.splitlines())])
        cells.append(source if source.startswith("# %%") else f"# %%\n{source}")
    script = (EXAMPLES / "own_model.py").read_text()
    assert "".join("".join(cells).split()) == "".join(script.split())


@pytest.mark.skipif(not NOTEBOOKS.exists(), reason="`make notebook` has not made .venv-notebook")
def test_the_notebook_runs(tmp_path):
    variables = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [NOTEBOOKS, "-c", EXECUTE, EXAMPLES / "own_model.ipynb"]
    done = subprocess.run(
        command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results" / "own.png").stat().st_size > 0
