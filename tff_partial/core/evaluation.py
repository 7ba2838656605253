"""Loss and metrics of the server's model on held-out data: in this process, or with TFF's own."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import warnings
from collections.abc import Sequence
from typing import Callable, NamedTuple, Optional

import numpy as np

from tff_partial.core import keras_compat, normalization, objectives
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.types import Array, Structure, Tensor, Variable, Weights


class Evaluation(NamedTuple):
    """Means over so many examples; `metrics` by name.

    `of_classes` is the accuracy on the examples of each class [classes], NaN where there are none.
    """

    loss: float
    metrics: dict[str, float]
    examples: int
    of_classes: Optional[Array] = None


def build(
    spec: ModelSpec,
    x: Array,
    y: Array,
    batch_size: Optional[int] = None,
    calibration: Optional[Array] = None,
    calibration_batch: int = 100,
    classes: int = 0,
) -> Callable[..., Evaluation]:
    """Return `evaluate(weights, examples=None) -> Evaluation` over x [n, ...] and y [n].

    `examples` are the indices [m] of those that count; by default all do.

    Static batch normalisation (HeteroFL) is evaluated with statistics that are estimated anew
    for the weights: in one pass over `calibration` in which these layers normalise by batch,
    the average of the batches' means and biased variances. Nothing else is in training mode.

    Args:
      spec: The model.
      x: Examples as clients hold them.
      y: Labels.
      batch_size: Examples at a time, by default what suits the model; the result depends on it by
        rounding only.
      calibration: Examples of clients' training data, in an order that mixes the clients; used
        with static batch normalisation only.
      calibration_batch: The most examples in a batch of `calibration`; the batches' sizes differ
        by one at most.
      classes: If given, the accuracy on each of so many classes is told as well.

    Raises:
      ValueError: If there is no example, or none to calibrate a model that needs it.
    """
    model, labels = spec.instantiate(), np.asarray(y, np.int32)
    if not len(labels):
        raise ValueError("evaluation must have at least one example. Received: 0 examples")
    size = batch_size or _suitable_batch(model)

    def batch_sums(x: Tensor, y: Tensor) -> Tensor:
        logits = model.forward(model.preprocess(x), training=False)
        values = [model.losses(y, logits), *model.metrics(y, logits)]
        sums = tf.stack([tf.reduce_sum(value) for value in values])
        if not classes:
            return sums
        correct = tf.math.unsorted_segment_sum(objectives.accuracy(y, logits), y, classes)
        return tf.concat([sums, correct], axis=0)

    signature = [_batch_spec(model), tf.TensorSpec([None], tf.int32)]
    map_batches = _Mapper(batch_sums, signature, -(-len(labels) // size))
    calibrate = _calibrator(model, calibration, calibration_batch)

    def evaluate(weights: Weights, examples: Optional[Array] = None) -> Evaluation:
        model.assign(weights)
        calibrate()
        places = np.arange(len(labels)) if examples is None else examples
        batches = np.split(places, range(size, len(places), size))
        sums = map_batches([(x[batch], labels[batch]) for batch in batches])
        total = np.sum(sums, axis=0, dtype=np.float64)
        names = map(objectives.name_of, spec.metrics)
        loss, *means = map(float, total[: len(total) - classes] / len(places))
        of_classes = _ratios(total[-classes:], labels[places]) if classes else None
        return Evaluation(loss, dict(zip(names, means)), len(places), of_classes)

    return evaluate


def _ratios(correct: Array, labels: Array) -> Array:
    """Return correct predictions over examples of each class, NaN where there are none."""
    examples = np.bincount(labels, minlength=len(correct))
    return np.divide(correct, examples, np.full(len(correct), np.nan), where=examples > 0)


def draw_sample(examples: int, size: Optional[int], seed: int) -> Optional[Array]:
    """Return which of so many examples are tested if only `size` are; None for all of them.

    A larger sample contains the smaller ones of the same seed.
    """
    if size is None or size >= examples:
        return None
    return np.sort(np.random.default_rng([seed, 0x7E57]).permutation(examples)[:size])


def _suitable_batch(model: Model) -> int:
    """Return the number of examples at a time that is fast for a model.

    Convolutions are faster if their activations stay in the cache, dense and recurrent layers if
    they read their weights seldom: the kind that has most of the weights decides.
    """
    sizes = [(variable.shape.rank, np.prod(variable.shape)) for variable in model.trainable]
    convolutions = sum(size for rank, size in sizes if rank == 4)
    return 100 if 2 * convolutions > sum(size for _, size in sizes) else 500


def _batch_spec(model: Model) -> tf.TensorSpec:
    return tf.TensorSpec([None, *model.spec.input_shape], model.spec.input_dtype)


def calibrated(
    spec: ModelSpec, weights: Weights, examples: Array, batch_size: int = 100
) -> Weights:
    """Return weights with the statistics that `build` estimates from calibration examples.

    They are the final model: training leaves these statistics as they were initialised.
    """
    model = spec.instantiate()
    model.assign(weights)
    _calibrator(model, examples, batch_size)()
    return tff.learning.models.ModelWeights(
        list(weights.trainable), [variable.numpy() for variable in model.statistics]
    )


def _calibrator(model: Model, examples: Optional[Array], batch_size: int) -> Callable[[], None]:
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

    def batch_statistics(x: Tensor) -> list[Tensor]:
        with normalization.observe_batches(static) as statistics:
            model.forward(model.preprocess(x), training=False)
        return tf.nest.flatten(statistics)

    map_batches = _Mapper(batch_statistics, [_batch_spec(model)], len(batches))

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

    def __init__(
        self, fn: Callable[..., Structure], signature: Sequence[tf.TensorSpec], batches: int
    ) -> None:
        traced = tf.function(fn, input_signature=signature, autograph=False).get_concrete_function()
        count = min(os.cpu_count() or 1, batches)
        self._functions = [
            tf.function(lambda *batch: traced(*batch), input_signature=signature, autograph=False)
            for _ in range(count)
        ]
        for function in self._functions:
            function.get_concrete_function()
        self._pool = concurrent.futures.ThreadPoolExecutor(count)

    def __call__(self, batches: Sequence[tuple[Array, ...]]) -> list[Structure]:
        waiting = enumerate(batches)  # of which a thread that is free takes the next
        values: list[Structure] = [None] * len(batches)

        def run(function: Callable[..., Structure]) -> None:
            for place, batch in waiting:
                value = function(*map(tf.constant, batch))
                values[place] = tf.nest.map_structure(lambda tensor: tensor.numpy(), value)

        list(self._pool.map(run, self._functions))
        return values


def to_tff_model(spec: ModelSpec) -> tff.learning.models.VariableModel:
    """Return a `tff.learning.models.VariableModel` with the spec's loss and metrics.

    Its weights are those of this project's processes, for static batch normalisation after
    `calibrated`; it takes batches (x, y) of examples as clients hold them,
    `preprocess` included.
    """
    model = spec.instantiate()
    with keras_compat.tf2_behavior():
        keras_model = _sequential_class()([tf.keras.layers.Lambda(model.preprocess), *model.blocks])
        keras_model.left_out = {id(v) for v in model.frozen}
        keras_model.build([None, *spec.input_shape])
    one_logit = keras_model.compute_output_shape([None, *spec.input_shape])[-1] == 1
    if (spec.loss or ("binary" if one_logit else "categorical")) == "binary":
        loss, labels = tf.keras.losses.BinaryCrossentropy(from_logits=True), [None, 1]
        metrics = [tf.keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)]
    else:
        loss, labels = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), [None]
        metrics = [tf.keras.metrics.SparseCategoricalAccuracy("accuracy")]
    if callable(spec.loss):
        loss, labels = _as_keras(spec.loss), [None]
    others = [metric for metric in spec.metrics if metric != "accuracy"]
    metrics += [_mean_metric(metric) for metric in others]
    x = tf.TensorSpec([None, *spec.input_shape], spec.input_dtype)
    with warnings.catch_warnings():
        # That TFF does not train batch-norm statistics is no concern of an evaluation.
        warnings.filterwarnings("ignore", "Batch Normalization contains")
        return tff.learning.models.from_keras_model(
            keras_model,
            loss=loss,
            input_spec=(x, tf.TensorSpec(labels, tf.int32)),
            metrics=metrics,
        )


@functools.cache
def _sequential_class() -> type:
    """Return the class of a model that leaves frozen variables out of its weights, as ours do."""

    class WithoutFrozen(tf.keras.Sequential):
        left_out: frozenset[int] = frozenset()

        @property
        def non_trainable_weights(self) -> list[Variable]:
            return [v for v in super().non_trainable_weights if id(v) not in self.left_out]

    return WithoutFrozen


def _as_keras(loss: Callable[[Tensor, Tensor], Tensor]) -> tf.keras.losses.Loss:
    """Return a user's loss in the form that `tff.learning` takes."""

    class Loss(tf.keras.losses.Loss):
        def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
            return objectives.losses(loss, tf.cast(y_true, tf.int32), y_pred)

    return Loss()


def _mean_metric(metric: objectives.Objective) -> tf.keras.metrics.Metric:
    """Return the mean of a metric over the examples."""

    def values(y_true: Tensor, y_pred: Tensor) -> Tensor:
        return objectives.metric(metric, tf.cast(y_true, tf.int32), y_pred)

    return tf.keras.metrics.MeanMetricWrapper(values, name=objectives.name_of(metric))
