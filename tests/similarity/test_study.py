"""Studies for figures 1 and 3: results, resuming, divergence."""

import csv
import json
import os

import numpy as np
import pytest

from tests.similarity.flags import SMALL
from tff_partial.cli import similarity
from tff_partial.similarity import comparison, schemes, study
from tff_partial.system import interrupts

BLOCKS = ["fc1", "fc2", "classifier"]

pytestmark = pytest.mark.usefixtures("keep_runtime")


def rows(folder):
    with open(folder / "similarity.csv", newline="") as file:
        return list(csv.DictReader(file))


def maxima(folder, scheme):
    """[times, blocks]."""
    found = [float(row["maximum"]) for row in rows(folder) if row["scheme"] == scheme]
    return np.reshape(found, (-1, len(BLOCKS)))


def leftovers(folder):
    return [name for _, _, names in os.walk(folder) for name in names if "_temp" in name]


@pytest.fixture(scope="module")
def figure1(tmp_path_factory, default_runtime):
    folder = tmp_path_factory.mktemp("similarity") / "figure1"
    assert similarity.main([*SMALL, "--figure=1", f"--output_dir={folder}"]) == 0
    return folder


def test_figure_1(figure1):
    found = rows(figure1)
    # Every second round and the last one; steps are those of a client.
    wanted = [(steps, name) for steps in ("4", "6") for name in BLOCKS]
    assert [(row["steps"], row["name"]) for row in found] == wanted
    assert {row["scheme"] for row in found} == {"none"}
    assert {row["clients"] for row in found} == {"3"}
    for row in found:
        assert 0 < float(row["mean"]) <= float(row["maximum"]) < 1
    assert (figure1 / "similarity.png").read_bytes()[:4] == b"\x89PNG"
    settings = json.loads((figure1 / "config.json").read_text())["settings"]
    assert {**settings, "figure": 1, "vectors": 4, "batches": 2, "examples": 40} == settings
    assert (settings["clients"], settings["clients_per_round"], settings["seed"]) == (3, 3, 0)
    assert not leftovers(figure1)


def test_a_finished_run_is_not_repeated(figure1, monkeypatch, capsys):
    before = (figure1 / "similarity.csv").read_bytes()
    os.remove(figure1 / "similarity.csv")
    monkeypatch.setattr(comparison.Comparison, "columns", None)
    assert similarity.main([*SMALL, "--figure=1", f"--output_dir={figure1}"]) == 0
    assert (figure1 / "similarity.csv").read_bytes() == before
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "| block | 4 steps | 6 steps |"
    assert len(table) == 2 + len(BLOCKS)


def test_a_run_that_was_stopped_goes_on(figure1, tmp_path, monkeypatch, capsys):
    sent = interrupts.StopSignals.__enter__

    def stopped(self):
        sent(self)
        self.received = 15
        return self

    flags = [*SMALL, "--figure=1", f"--output_dir={tmp_path}/run"]
    with monkeypatch.context() as patch:
        patch.setattr(interrupts.StopSignals, "__enter__", stopped)
        assert similarity.main(flags) == 128 + 15
    assert "stopped after round 1; start again" in capsys.readouterr().err
    assert not (tmp_path / "run" / "similarity.csv").exists()
    assert similarity.main(flags) == 0
    assert rows(tmp_path / "run") == rows(figure1)


def test_figure_3(tmp_path, capsys):
    assert similarity.main([*SMALL, "--figure=3", f"--output_dir={tmp_path}/run"]) == 0
    folder = tmp_path / "run"
    # The first of three blocks is the first half: the same on every client.
    np.testing.assert_allclose(maxima(folder, "first_half")[:, 0], 1, atol=1e-6)
    assert (maxima(folder, "first_half")[:, 1:] < 1 - 1e-4).all()
    for scheme in ("second_half", "channel"):
        assert (maxima(folder, scheme) < 1 - 1e-4).all()
    header = capsys.readouterr().out.splitlines()[0]
    assert header == "| block | second_half | channel | first_half |"
    assert (folder / "similarity.png").exists()
    assert not leftovers(folder)


def test_clients_that_hardly_train_stay_alike(tmp_path):
    flags = [*SMALL, "--figure=1", "--learning_rate=1e-9", f"--output_dir={tmp_path}/run"]
    assert similarity.main(flags) == 0
    np.testing.assert_allclose(maxima(tmp_path / "run", "none"), 1, atol=1e-4)


def test_models_that_diverge_are_reported(tmp_path, capsys):
    flags = [*SMALL, "--figure=1", "--learning_rate=1e30", f"--output_dir={tmp_path}/run"]
    assert similarity.main(flags) == 0
    assert "diverged were left out: at times only 0 were compared" in capsys.readouterr().err
    assert {row["maximum"] for row in rows(tmp_path / "run")} == {"nan"}


def test_a_folder_with_other_settings_is_refused(figure1, capsys):
    before = sorted(os.listdir(figure1))
    assert similarity.main([*SMALL, "--figure=1", "--seed=5", f"--output_dir={figure1}"]) == 2
    assert "seed=0 there, 5 now" in capsys.readouterr().err
    assert sorted(os.listdir(figure1)) == before


def test_the_paper_s_settings():
    settings = study.create_experiment(2, task="cifar10", preset="paper").settings
    assert (settings.model, settings.partition) == ("resnet20", "dirichlet:0.1")
    assert (settings.clients, settings.clients_per_round) == (128, 128)
    assert settings.rounds * settings.local_steps == 1000
    assert set(schemes.FIGURES[3]) < set(schemes.SCHEMES)
