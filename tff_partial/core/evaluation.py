"""Loss and metrics of the server's model on held-out data, in this process."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Sequence
from typing import Callable, NamedTuple, Optional, TypeVar

import numpy as np

from tff_partial.core import normalization
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.types import Array, Structure, Tensor, Weights

_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")


class Evaluation(NamedTuple):
    """Means over the examples; `metrics` by name."""

    loss: float
    metrics: dict[str, float]


def build(
    spec: ModelSpec,
    x: Array,
    y: Array,
    batch_size: int = 500,
    calibration: Optional[Array] = None,
    calibration_batch: int = 100,
) -> Callable[[Weights], Evaluation]:
    """Return `evaluate(weights) -> Evaluation` over all of x [n, ...] and y [n].

    Static batch normalisation (HeteroFL) is evaluated with statistics that are estimated anew
    for the weights: in one pass over `calibration` in which these layers normalise by batch,
    the average of the batches' means and biased variances. Nothing else is in training mode.

    Args:
      spec: The model.
      x: Examples as clients hold them.
      y: Labels.
      batch_size: Examples at a time; the result does not depend on it but for rounding.
      calibration: Examples of clients' training data, in an order that mixes the clients; used
        with static batch normalisation only.
      calibration_batch: The most examples in a batch of `calibration`; the batches' sizes differ
        by one at most.

    Raises:
      ValueError: If there is no example, or none to calibrate a model that needs it.
    """
    model, labels = spec.instantiate(), np.asarray(y, np.int32)
    if not len(labels):
        raise ValueError("evaluation must have at least one example. Received: 0 examples")
    batch_sums = _build_batch_sums(model)

    def sums_from(start: int) -> Array:
        batch = slice(start, start + batch_size)
        return batch_sums(tf.constant(x[batch]), tf.constant(labels[batch])).numpy()

    def evaluate(weights: Weights) -> Evaluation:
        model.assign(weights)
        calibrate()
        sums = _map_batches(pool, sums_from, range(0, len(labels), batch_size))
        total = np.sum(sums, axis=0, dtype=np.float64) / len(labels)
        return Evaluation(float(total[0]), dict(zip(spec.metrics, map(float, total[1:]))))

    pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
    calibrate = _build_calibrate(model, calibration, calibration_batch, pool)
    return evaluate


def _build_batch_sums(model: Model) -> Callable[[Tensor, Tensor], Tensor]:
    """Return (x, y) -> sums of the loss and of each metric over a batch."""

    @tf.function(input_signature=[_batch_spec(model), tf.TensorSpec([None], tf.int32)])
    def batch_sums(x: Tensor, y: Tensor) -> Tensor:
        logits = model.forward(model.preprocess(x), training=False)
        values = [model.losses(y, logits), *model.metrics(y, logits)]
        return tf.stack([tf.reduce_sum(value) for value in values])

    return batch_sums


def _batch_spec(model: Model) -> tf.TensorSpec:
    return tf.TensorSpec([None, *model.spec.input_shape], model.spec.input_dtype)


def calibrated(
    spec: ModelSpec, weights: Weights, examples: Array, batch_size: int = 100
) -> Weights:
    """Return weights with the statistics of static batch normalisation that `build` uses.

    They are the final model: training leaves these statistics as they were initialised.

    Args:
      spec: The model.
      weights: Its weights.
      examples: `calibration` of `build`.
      batch_size: `calibration_batch` of `build`.
    """
    model = spec.instantiate()
    model.assign(weights)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        _build_calibrate(model, examples, batch_size, pool)()
    return tff.learning.models.ModelWeights(
        list(weights.trainable), [variable.numpy() for variable in model.statistics]
    )


def _build_calibrate(
    model: Model, examples: Optional[Array], batch_size: int, pool: concurrent.futures.Executor
) -> Callable[[], None]:
    """Return a function that sets the statistics of static layers for the current weights."""
    layers = model.layers_of(tf.keras.layers.BatchNormalization)
    static = [layer for layer in layers if normalization.is_static(layer)]
    if not static:
        return lambda: None
    if examples is None or not len(examples):
        raise ValueError(
            "evaluation of static batch normalization must have examples to calibrate with. "
            f"Received: calibration={None if examples is None else '0 examples'}"
        )
    batches = np.array_split(examples, -(-len(examples) // batch_size))

    @tf.function(input_signature=[_batch_spec(model)])
    def batch_statistics(x: Tensor) -> Structure:
        with normalization.observe_batches(static) as statistics:
            model.forward(model.preprocess(x), training=False)
        return statistics

    def statistics_of(batch: Array) -> list[Array]:
        return [value.numpy() for value in tf.nest.flatten(batch_statistics(tf.constant(batch)))]

    def calibrate() -> None:
        rows = zip(*_map_batches(pool, statistics_of, batches))
        variables = [v for layer in static for v in (layer.moving_mean, layer.moving_variance)]
        for variable, values in zip(variables, rows):
            variable.assign(np.mean(values, axis=0, dtype=np.float64))

    return calibrate


def _map_batches(
    pool: concurrent.futures.Executor, fn: Callable[[_Batch], _Result], batches: Sequence[_Batch]
) -> list[_Result]:
    """Return [fn(batch) for each batch], in parallel but for the first.

    The first batch alone: it traces, which two threads must not do at the same time.
    """
    return [fn(batches[0]), *pool.map(fn, batches[1:])]
