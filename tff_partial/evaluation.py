"""Loss and accuracy of the server's model on held-out data, in this process."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import numpy as np

from tff_partial.lazy import tf
from tff_partial.model_spec import ModelSpec


class Evaluation(NamedTuple):
    loss: float
    accuracy: float


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

    @tf.function(reduce_retracing=True)
    def batch_sums(x_batch: Any, y_batch: Any) -> Any:
        logits = model.forward(model.preprocess(x_batch), training=False)
        return tf.stack(
            [
                tf.reduce_sum(model.losses(y_batch, logits)),
                tf.reduce_sum(model.correct(y_batch, logits)),
            ]
        )

    def evaluate(weights: Any) -> Evaluation:
        model.assign(weights)
        starts = range(0, len(labels), batch_size)
        sums = [batch_sums(x[i : i + batch_size], labels[i : i + batch_size]) for i in starts]
        total = np.sum([s.numpy() for s in sums], axis=0, dtype=np.float64) / len(labels)
        return Evaluation(float(total[0]), float(total[1]))

    return evaluate
