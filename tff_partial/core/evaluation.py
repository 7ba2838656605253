"""Loss and metrics of the server's model on held-out data, in this process."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from tff_partial.core import normalization
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import Model, ModelSpec


class Evaluation(NamedTuple):
    """Means over the examples; `metrics` by name."""

    loss: float
    metrics: dict[str, float]


def build(
    spec: ModelSpec,
    x: Any,
    y: Any,
    batch_size: int = 500,
    calibration: Optional[np.ndarray] = None,
    calibration_batch: int = 100,
) -> Callable[[Any], Evaluation]:
    """Returns `evaluate(weights) -> Evaluation` over all of x [n, ...] and y [n].

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
      ValueError: if there is no example, or none to calibrate a model that needs it.
    """
    model = spec.instantiate()
    labels = np.asarray(y, np.int32)
    if not len(labels):
        raise ValueError("evaluation must have at least one example. Received: 0 examples")

    x_spec = tf.TensorSpec([None, *spec.input_shape], spec.input_dtype)

    def batch_sums(x_batch: Any, y_batch: Any) -> Any:
        logits = model.forward(model.preprocess(x_batch), training=False)
        values = [model.losses(y_batch, logits), *model.metrics(y_batch, logits)]
        return tf.stack([tf.reduce_sum(value) for value in values])

    batches = [slice(start, start + batch_size) for start in range(0, len(labels), batch_size)]
    map_batches = _Mapper(batch_sums, [x_spec, tf.TensorSpec([None], tf.int32)], len(batches))

    def evaluate(weights: Any) -> Evaluation:
        model.assign(weights)
        calibrate()
        sums = map_batches([(x[batch], labels[batch]) for batch in batches])
        total = np.sum(sums, axis=0, dtype=np.float64) / len(labels)
        return Evaluation(float(total[0]), dict(zip(spec.metrics, map(float, total[1:]))))

    calibrate = _build_calibrate(model, calibration, calibration_batch)
    return evaluate


def calibrated(spec: ModelSpec, weights: Any, examples: np.ndarray, batch_size: int = 100) -> Any:
    """The weights with the statistics of static batch normalisation that `build` evaluates with.

    What is handed on as the final model: training leaves these statistics as they were initialised.

    Args:
      spec: The model.
      weights: Its `tff.learning.models.ModelWeights`.
      examples: `calibration` of `build`.
      batch_size: `calibration_batch` of `build`.
    """
    model = spec.instantiate()
    model.assign(weights)
    _build_calibrate(model, examples, batch_size)()
    return tff.learning.models.ModelWeights(
        list(weights.trainable), [variable.numpy() for variable in model.statistics]
    )


def _build_calibrate(
    model: Model, examples: Optional[np.ndarray], batch_size: int
) -> Callable[[], None]:
    """Returns a function that sets the statistics of static layers for the current weights."""
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
    spec = model.spec

    def batch_statistics(x_batch: Any) -> Any:
        with normalization.observe_batches(static) as statistics:
            model.forward(model.preprocess(x_batch), training=False)
        return tf.nest.flatten(statistics)

    x_spec = tf.TensorSpec([None, *spec.input_shape], spec.input_dtype)
    map_batches = _Mapper(batch_statistics, [x_spec], len(batches))

    def calibrate() -> None:
        rows = zip(*map_batches([(batch,) for batch in batches]))
        variables = [v for layer in static for v in (layer.moving_mean, layer.moving_variance)]
        for variable, values in zip(variables, rows):
            variable.assign(np.mean(values, axis=0, dtype=np.float64))

    return calibrate


class _Mapper:
    """Calls a function with batches in several threads, and returns its values in their order.

    Each thread calls a function of its own: two threads in the same kernel corrupt the memory with
    oneDNN. Nothing is traced while another thread runs.
    """

    def __init__(self, fn: Callable[..., Any], signature: Sequence[Any], batches: int) -> None:
        traced = tf.function(fn, input_signature=signature).get_concrete_function()
        count = min(os.cpu_count() or 1, batches)
        self._functions = [
            tf.function(lambda *batch: traced(*batch), input_signature=signature)
            for _ in range(count)
        ]
        for function in self._functions:
            function.get_concrete_function()
        self._pool = concurrent.futures.ThreadPoolExecutor(count)

    def __call__(self, batches: Sequence[tuple[Any, ...]]) -> list[Any]:
        count = len(self._functions)

        def run(index: int) -> list[Any]:
            function = self._functions[index]
            values = [function(*map(tf.constant, batch)) for batch in batches[index::count]]
            return [tf.nest.map_structure(lambda value: value.numpy(), value) for value in values]

        shares = list(self._pool.map(run, range(count)))
        return [shares[i % count][i // count] for i in range(len(batches))]
