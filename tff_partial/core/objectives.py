"""Losses and metrics by name: functions (labels int32 [n], logits) -> float32 [n], one an example.

A task names its own; what is reported is their mean over the examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from tff_partial.core import checks
from tff_partial.core.lazy import tf
from tff_partial.core.types import Tensor


def categorical(labels: Tensor, logits: Tensor) -> Tensor:
    """Return the cross-entropy of the softmax of logits [n, classes]."""
    if logits.shape[-1] < 2:
        raise ValueError("a categorical loss must have a logit for each class. Received: 1 logit")
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def binary(labels: Tensor, logits: Tensor) -> Tensor:
    """Return the cross-entropy of the sigmoid of logits [n, 1]."""
    if logits.shape[-1] != 1:
        raise ValueError(f"a binary loss must have one logit. Received: {logits.shape[-1]} logits")
    labels = tf.cast(labels, tf.float32)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels, tf.squeeze(logits, -1))


def accuracy(labels: Tensor, logits: Tensor) -> Tensor:
    """Return 1 where the likeliest class is the label; one logit stands for two classes."""
    if logits.shape[-1] == 1:
        predicted = tf.cast(tf.squeeze(logits, -1) > 0, tf.int32)
    else:
        predicted = tf.argmax(logits, -1, output_type=tf.int32)
    # Not `==`, which compares identities in the graphs that TFF traces.
    return tf.cast(tf.equal(predicted, labels), tf.float32)


def top5_accuracy(labels: Tensor, logits: Tensor) -> Tensor:
    """Return 1 where the label is among the five likeliest classes."""
    return tf.cast(tf.math.in_top_k(labels, logits, 5), tf.float32)


LOSSES = {"categorical": categorical, "binary": binary}
METRICS = {"accuracy": accuracy, "top5_accuracy": top5_accuracy}


def check(loss: Optional[str], metrics: Sequence[str]) -> None:
    """Raise a ValueError unless loss (None: the one that fits) and metrics are known names."""
    if loss is not None:
        checks.one_of("loss", loss, LOSSES)
    known = set(metrics) <= set(METRICS) and len(set(metrics)) == len(metrics)
    if not known or "accuracy" not in metrics:
        raise ValueError(
            f"metrics must be 'accuracy' and others of {sorted(METRICS)}, each once. "
            f"Received: metrics={tuple(metrics)}"
        )
