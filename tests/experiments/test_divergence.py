"""Divergence: noticed, named, and the last finite state kept."""

import numpy as np
import pytest

from tests import tiny
from tests.experiments.rounds import LOCAL, Data, Watching, evaluate
from tff_partial.core import evaluation
from tff_partial.core.local_training import LocalTraining
from tff_partial.experiments import divergence, participation
from tff_partial.experiments import loop as training
from tff_partial.results import metrics


class Diverging:
    """Evaluates to NaN from the third round on."""

    def __init__(self):
        self.count = 0

    def __call__(self, weights):
        self.count += 1
        return evaluation.Evaluation(float("nan") if self.count > 2 else 1.0, {"accuracy": 0.5}, 9)


def diverge(process, folder, test=evaluate, **others):
    options = training.LoopOptions(6, 2, checkpoint_every=5)
    with pytest.raises(divergence.DivergedError) as caught:
        training.train(process, Data(5), test, options, str(folder), **others)
    return caught.value


@pytest.mark.parametrize("name", ["train_loss", "test_loss", "sampled_test_loss_all_clients"])
def test_every_loss_counts(name):
    assert divergence.find((), {}, {name: float("inf"), "test_accuracy": ""}) == f"{name}=inf"


@pytest.mark.parametrize(
    ("name", "params"), [("fedavg", {}), ("scaffold", {}), ("periodic_averaging", {"active": 2})]
)
def test_divergence_is_an_error_that_keeps_the_last_finite_state(name, params, tmp_path):
    local = LocalTraining(steps=3, batch_size=4, learning_rate="0.1,2:1e30")
    process = tiny.build(name, local, population=5, **params)
    watching = Watching()
    error = diverge(process, tmp_path, callbacks=[watching])
    assert error.round_num == 3
    assert watching.done == [0, 1, 2, 3]
    assert watching.has_ended
    assert "diverged in round 3: train_loss=" in str(error)
    assert "--learning_rate" in str(error)
    cohort = participation.sample_clients(5, 2, 2, 0).tolist()
    assert f"of cohort {cohort[0]}, {cohort[1]};" in str(error)
    for client in cohort:
        assert str(client) in str(error).split("clients ")[1].split(" of cohort")[0]
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["round_2.npz"]
    with np.load(tmp_path / "checkpoints" / "round_2.npz") as arrays:
        assert all(np.isfinite(arrays[name]).all() for name in arrays)
    rows = metrics.read(str(tmp_path))
    assert [row["round"] for row in rows] == [1, 2, 3]
    assert not np.isfinite(rows[-1]["train_loss"])
    again = diverge(process, tmp_path)
    assert str(again) == str(error)
    assert np.array_equal(
        [[*row.values()][1:5] for row in metrics.read(str(tmp_path))],
        [[*row.values()][1:5] for row in rows],
        equal_nan=True,
    )


@pytest.mark.parametrize(
    ("name", "params"), [("fedavg", {}), ("scaffold", {}), ("partial_averaging", {"active": 4})]
)
def test_only_the_clients_that_diverged_are_named(name, params, tmp_path):
    class OneIsHuge(Data):
        def client(self, client):
            x, y = super().client(client)
            return (x * np.float32(1e30) if client == 3 else x), y

    process = tiny.build(name, LOCAL, population=5, **params)
    options = training.LoopOptions(9, 4)
    with pytest.raises(divergence.DivergedError, match="clients 3 of cohort"):
        training.train(process, OneIsHuge(5), evaluate, options, str(tmp_path))


def test_a_test_loss_that_is_not_finite_is_divergence(process, tmp_path):
    assert "test_loss=nan" in str(diverge(process, tmp_path, Diverging()))
