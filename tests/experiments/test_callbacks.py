"""What watches the rounds of a run."""

import gc

import pytest
import tensorflow as tf

from tests import tiny
from tests.experiments.rounds import run
from tff_partial.core.local_training import LocalTraining
from tff_partial.experiments import callbacks, privacy
from tff_partial.results import metrics


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    """One that cuts off no bar."""
    monkeypatch.setenv("COLUMNS", "120")


def test_tensorboard_has_what_metrics_csv_has(tmp_path):
    from tensorboard.backend.event_processing import event_accumulator

    process = tiny.build("fedavg", LocalTraining(steps=2, batch_size=4))
    run(process, tmp_path, rounds=3, callbacks=[callbacks.TensorBoard(str(tmp_path))])
    [path] = (tmp_path / "tensorboard").iterdir()
    gc.collect()  # closes the writer
    events = event_accumulator.EventAccumulator(str(path), {"tensors": 0}).Reload()
    rows = metrics.read(str(tmp_path))
    losses = [float(tf.make_ndarray(e.tensor_proto)) for e in events.Tensors("train_loss")]
    assert losses == pytest.approx([row["train_loss"] for row in rows], rel=1e-6)


def test_costs_are_columns_and_late_clients_do_not_count():
    class Accounts:
        def of_round(self, clients, round_num):
            return clients[:-1], {"clients_late": 1, "round_num": round_num}

    costs = callbacks.Costs(Accounts())
    assert costs.on_cohort(7, [3, 1, 2]) == [3, 1]
    assert costs.on_result(7, None, False) == {"clients_late": 1, "round_num": 7}
    silent = callbacks.Costs(Accounts(), tells=False)
    assert silent.on_cohort(7, [3, 1, 2]) == [3, 1]
    assert silent.on_result(7, None, False) == {}


@pytest.mark.parametrize("noise", [2.0, 0.0])
def test_epsilon_is_that_of_the_rounds_so_far(noise):
    accounting = privacy.Accounting(noise, 100, 10, "poisson", 1e-3)
    column = callbacks.Epsilon(accounting).on_result(6, None, False)
    assert column == {"epsilon": pytest.approx(accounting.epsilon(7), abs=1e-6) if noise else ""}


def test_the_bar_goes_on_where_the_last_start_stopped(capsys):
    bar = callbacks.ProgressBar(5, "title")
    bar.on_start(3)
    bar.on_round(4, {"train_loss": "", "test_accuracy": 0.25})
    bar.on_round(5, {"train_loss": 1.5, "test_accuracy": ""})
    bar.on_end()
    shown = capsys.readouterr().err.split("\r")[-1]
    assert shown.startswith("title: 100%")
    assert "5/5" in shown
    assert shown.rstrip().endswith("loss=1.5000, accuracy=0.2500]")


def test_the_bar_shows_the_accuracy_on_a_sample(capsys):
    bar = callbacks.ProgressBar(2)
    row = {"train_loss": 1.5, "test_accuracy": "", "sampled_test_accuracy": 0.75}
    bar.on_round(1, row)
    bar.on_round(2, {**row, "sampled_test_accuracy": ""})
    bar.on_end()
    assert "accuracy=0.7500" in capsys.readouterr().err.split("\r")[-1]


def test_the_bar_says_where_clients_run(capsys):
    bar = callbacks.ProgressBar(2, place=lambda: "8 actors on 2 nodes")
    bar.on_round(1, {"train_loss": 0.5})
    bar.on_end()
    assert "loss=0.5000, accuracy=, 8 actors on 2 nodes" in capsys.readouterr().err
