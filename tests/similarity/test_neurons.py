"""Activations of neurons by client: measured on a run, against NumPy."""

import json

import numpy as np
import pytest

from tff_partial.cli import activations as command
from tff_partial.experiments import config
from tff_partial.results import neurons as results
from tff_partial.similarity import neurons

pytestmark = pytest.mark.usefixtures("keep_runtime")
SMALL = ["--data=embedded", "--clients=3", "--rounds=2", "--local_steps=2", "--examples=20"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, default_runtime):
    place = tmp_path_factory.mktemp("activations") / "run"
    assert command.main([*SMALL, f"--output_dir={place}"]) == 0
    return place


def test_activations_are_those_of_numpy(folder):
    training = neurons.prepare(
        neurons.Measuring(20),
        "embedded",
        output_dir=str(folder),
        clients=3,
        rounds=2,
        local_steps=2,
    ).training
    training.lock.close()
    with np.load(folder / "weights.npz") as arrays:
        w = [arrays[name] for name in arrays.files]
    x, _ = neurons._examples(training.data, 20, 0)["client 2"]
    x = np.asarray(training.experiment.task.preprocess(x.astype(np.float32))).reshape(len(x), -1)
    h1 = np.maximum(x @ w[0] + w[1], 0)
    h2 = np.maximum(h1 @ w[2] + w[3], 0)
    rows = results.read(str(folder / results.ACTIVATIONS))
    found = results.by_layer(rows)
    for name, values in zip(found, (h1, h2, h2 @ w[4] + w[5])):
        np.testing.assert_allclose(found[name]["client 2"], values.mean(axis=0), atol=1e-4)
    assert list(found["fc1"]) == ["client 1", "client 2", "client 3", results.EVERYBODY]
    examples = results.read(str(folder / results.EXAMPLES), is_example=True)
    assert {row["client"] for row in examples} == {"client 1", "client 2", "client 3"}
    xs = np.array([(row["x"], row["y"]) for row in examples])
    np.testing.assert_allclose(xs.mean(axis=0), 0, atol=1e-3)
    assert xs[:, 0].std() >= xs[:, 1].std()


def test_the_folder_has_pictures_and_a_summary(folder):
    for name in ("figure2", "figure6", "figure7", "figure8"):
        assert (folder / f"{name}.svg").read_text().startswith("<svg xmlns=")
    summary = json.loads((folder / "summary.json").read_text())
    shares = results.in_common(results.read(str(folder / results.ACTIVATIONS)))
    assert summary["common_2"] == pytest.approx(np.mean(shares["fc2"]))
    assert summary["rounds"] == 2


def test_all_clients_take_part_and_a_paper_may_say_the_rest():
    assert neurons.create_settings(clients=4)["clients_per_round"] == 4
    chosen = neurons.create_settings(preset="paper", model="mlp_50_24", local_steps=3)
    assert chosen["clients_per_round"] == config.create(**chosen).settings.clients
    with pytest.raises(ValueError, match="clients must be at least 2. Received: clients=1"):
        neurons.create_settings(clients=1)
    with pytest.raises(ValueError, match="examples must be positive"):
        neurons.Measuring(0)
