"""Losses and metrics: functions (labels int32 [n], logits) -> float32 [n], a value an example.

A task or a model names its own, or has functions of its own; what is reported is their mean over
the examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, Optional, Union

from tff_partial.core import checks, own_code
from tff_partial.core.lazy import tf
from tff_partial.core.types import Tensor

# A name, or a function (labels, logits) -> a value for each example.
Objective = Union[str, Callable[[Tensor, Tensor], Tensor]]


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


def losses(loss: Optional[Objective], labels: Tensor, logits: Tensor) -> Tensor:
    """Return the loss of each example; None is the one that fits the number of logits."""
    if loss is None:
        loss = "binary" if logits.shape[-1] == 1 else "categorical"
    return _values(LOSSES[loss] if isinstance(loss, str) else loss, labels, logits)


def metric(metric: Objective, labels: Tensor, logits: Tensor) -> Tensor:
    """Return a metric of each example."""
    return _values(METRICS[metric] if isinstance(metric, str) else metric, labels, logits)


def _values(function: Callable[[Tensor, Tensor], Tensor], labels: Tensor, logits: Tensor) -> Tensor:
    values = tf.cast(function(labels, logits), tf.float32)
    if values.shape.rank not in (1, None):
        raise ValueError(
            "a loss or metric must return a value for each example [n], not their mean. "
            f"Received: {own_code.short_name(function)}, which returns {values.shape}"
        )
    return values


def name_of(metric: Objective) -> str:
    """Return the name of a metric in metrics.csv."""
    return metric if isinstance(metric, str) else own_code.short_name(metric)


def check(loss: Optional[Objective], metrics: Sequence[Objective]) -> None:
    """Raise a ValueError unless these are known names or functions; loss None: the one that fits.

    The names of metrics must differ, as they are columns.
    """
    if loss is not None and not callable(loss):
        checks.one_of("loss", loss, LOSSES)
    names = [name_of(metric) for metric in metrics]
    own = [name_of(metric) for metric in metrics if callable(metric)]
    known = {*names} <= {*METRICS, *own} and len({*names}) == len(names)
    valid = all(name.isidentifier() and name not in ("loss", *METRICS) for name in own)
    if not (known and valid) or "accuracy" not in names:
        raise ValueError(
            f"metrics must be 'accuracy' and others of {sorted(METRICS)} or functions with names, "
            f"each once. Received: metrics={tuple(names)}"
        )
