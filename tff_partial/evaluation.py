"""Loss and metrics of the server's model on held-out data, in this process."""

from __future__ import annotations

import concurrent.futures
import os
from typing import Any, Callable, NamedTuple

import numpy as np

from tff_partial.lazy import tf
from tff_partial.model_spec import ModelSpec


class Evaluation(NamedTuple):
    """Means over the examples; `metrics` by name."""

    loss: float
    metrics: dict[str, float]


def build(spec: ModelSpec, x: Any, y: Any, batch_size: int = 500) -> Callable[[Any], Evaluation]:
    """Returns `evaluate(weights) -> Evaluation` over all of x [n, ...] and y [n].

    Args:
      spec: The model.
      x: Examples as clients hold them.
      y: Labels.
      batch_size: Examples at a time; the result does not depend on it but for rounding.
    """
    model = spec.instantiate()
    labels = np.asarray(y, np.int32)
    if not len(labels):
        raise ValueError("evaluation must have at least one example. Received: 0 examples")

    x_spec = tf.TensorSpec([None, *spec.input_shape], spec.input_dtype)

    @tf.function(input_signature=[x_spec, tf.TensorSpec([None], tf.int32)])
    def batch_sums(x_batch: Any, y_batch: Any) -> Any:
        logits = model.forward(model.preprocess(x_batch), training=False)
        values = [model.losses(y_batch, logits), *model.metrics(y_batch, logits)]
        return tf.stack([tf.reduce_sum(value) for value in values])

    def sums_from(start: int) -> Any:
        batch = slice(start, start + batch_size)
        return batch_sums(tf.constant(x[batch]), tf.constant(labels[batch])).numpy()

    def evaluate(weights: Any) -> Evaluation:
        model.assign(weights)
        starts = range(0, len(labels), batch_size)
        # The first batch alone: it traces, which two threads must not do at the same time.
        sums = [sums_from(0), *pool.map(sums_from, starts[1:])]
        total = np.sum(sums, axis=0, dtype=np.float64) / len(labels)
        return Evaluation(float(total[0]), dict(zip(spec.metrics, map(float, total[1:]))))

    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    return evaluate
