"""What watches the rounds of a run."""

import gc

import pytest
import tensorflow as tf

from tests import tiny
from tests.experiments.rounds import run
from tff_partial.core.local_training import LocalTraining
from tff_partial.experiments import callbacks
from tff_partial.results import metrics


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
