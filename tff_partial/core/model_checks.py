"""Refuses models that would be trained otherwise than they were written.

Every check is made once, when a `ModelSpec` is built, in a graph that is thrown away.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable

import numpy as np

from tff_partial.core import keras_compat, layer_graph, sessions
from tff_partial.core.lazy import tf
from tff_partial.core.types import Array, KerasModel, Layer, Tensor, Variable

if TYPE_CHECKING:
    from tff_partial.core.model import Model

_BATCH = 3
_WAY_OUT = "wrap it as one block, tf.keras.Sequential([model])"


def is_chain(keras_model: KerasModel) -> bool:
    """Return whether a model calls its layers one after the other by its very class.

    Raises:
      ValueError: If it is not a Keras model.
    """
    if not isinstance(keras_model, tf.keras.Model):
        raise ValueError(
            f"create_keras must return a tf.keras.Model. Received: {type(keras_model).__name__}"
        )
    sequential = tf.keras.Sequential
    return isinstance(keras_model, sequential) and type(keras_model).call is sequential.call


def check_listed_once(keras_model: KerasModel) -> None:
    """Raise a ValueError if a Sequential, at any depth, lists a layer twice.

    Unless its first layer has an input shape, Keras leaves the second out without a word.
    """
    for model in keras_model._flatten_layers():
        if not isinstance(model, tf.keras.Sequential):
            continue
        # With an input shape it is a graph, and `layers` are without repetition.
        nodes = [node for depth in getattr(model, "_nodes_by_depth", {}).values() for node in depth]
        layers = [node.layer for node in nodes] or model._self_tracked_trackables
        counts = collections.Counter(layer.name for layer in layers)
        repeated = [f"{name!r} {count} times" for name, count in counts.items() if count > 1]
        if repeated:
            raise ValueError(
                "a Sequential must list each layer once; create it anew, or share it in a "
                f"functional model as one block. Received: {repeated[0]} in {model.name!r}"
            )


def check_shared(blocks: Sequence[Layer]) -> None:
    """Raise a ValueError if two blocks have a variable in common, which would train twice."""
    owners: dict[int, Layer] = {}
    for block in blocks:
        for variable in block.variables:
            other = owners.setdefault(id(variable), block)
            if other is not block:
                raise ValueError(
                    "blocks must not share variables; put the layers that do into one block. "
                    f"Received: {variable.name!r} in blocks {other.name!r} and {block.name!r}"
                )


def check_trainable(keras_model: KerasModel, model: Model) -> None:
    """Raise a ValueError if there is nothing to train."""
    if not model.trainable:
        raise ValueError(
            "a model must have variables that are trained. "
            f"Received: model={keras_model.name!r} with {len(model.frozen)} frozen ones only"
        )


def check_logits(keras_model: KerasModel, loss: object) -> None:
    """Raise a ValueError if a model ends in probabilities where the loss takes logits.

    Such a model trains, but slowly: its probabilities go through a second softmax.
    """
    if callable(loss):
        return  # the user's own, which knows what it is given
    keras = tf.keras
    last = _last_layer(keras_model)
    activation = getattr(last, "activation", None)
    of_layers = {keras.layers.Softmax: "softmax"}
    of_functions = {keras.activations.softmax: "softmax", keras.activations.sigmoid: "sigmoid"}
    found = of_layers.get(type(last)) or (callable(activation) and of_functions.get(activation))
    if found:
        raise ValueError(
            "a model must end in logits, as its loss applies the softmax or sigmoid; leave out the "
            "last activation (keras.applications: classifier_activation=None), or give a loss of "
            f"your own. Received: model={keras_model.name!r}, whose last layer {last.name!r} "
            f"applies a {found}"
        )


def _last_layer(layer: Layer) -> Layer:
    """Return the layer that computes a model's output, as far as nested models show it."""
    while isinstance(layer, tf.keras.Model):
        if layer_graph.is_functional(layer) and not isinstance(layer, tf.keras.Sequential):
            found = layer.output_names and layer.get_layer(layer.output_names[0])
        else:
            found = layer.layers and layer.layers[-1]
        if not found:
            break
        layer = found
    return layer


def check_chain(keras_model: KerasModel, x: Tensor, create: Callable[[KerasModel], Model]) -> Model:
    """Return the model as blocks; raise a ValueError unless these in a row compute the same.

    Both are run on the batch x with the same random weights, in inference and in training mode. To
    be called in a graph of its own, whose variables it sets.
    """
    if layer_graph.is_functional(keras_model):
        layer_graph.segments(keras_model)  # or a ValueError that says why it cannot be cut
    # Called first: its layers have the shapes then that it means them to have.
    keras_compat.call(keras_model, x, training=False)
    try:
        model = create(keras_model)
    except (ValueError, TypeError) as error:
        raise _refused(keras_model, "its layers cannot be called so") from error
    if {id(v) for v in keras_model.variables} - {id(v) for v in model.everything}:
        raise _refused(keras_model, "it has variables that belong to none of its layers")
    for mode, (expected, actual) in zip(
        ("inference", "training"), _run_both(keras_model, model, x)
    ):
        for place, a, b in zip(_places(keras_model, model), expected, actual):
            if not _is_same(a, b):
                raise _refused(keras_model, f"in {mode} mode {place} {_described(b, a)}")
    return model


def _places(keras_model: KerasModel, model: Model) -> list[str]:
    """Return what computes each of the compared outputs."""
    if not layer_graph.is_functional(keras_model):
        return ["they compute"]
    return [f"block {block.name!r} computes" for block in model.blocks]


def _run_both(keras_model: KerasModel, model: Model, inputs: Tensor) -> list[list[list[Array]]]:
    """Return the outputs [inference, training][model, its blocks] with random weights.

    They are those of each block where a functional model says what these should be.
    """
    variables = [v for v in model.everything if v.dtype.is_floating]
    noisy = [v.assign(v + _noise(v, seed)) for seed, v in enumerate(variables)]
    whole, outputs_of = _in_one_call(keras_model, model)

    @tf.function(autograph=False)
    def outputs(x: Tensor) -> list[list[list[Tensor]]]:
        # Inference first: a call in training mode may move the statistics.
        return [
            [tf.nest.flatten(keras_compat.call(whole, x, mode)), outputs_of(x, mode)]
            for mode in (False, True)
        ]

    try:
        by_mode = outputs(inputs)
        with sessions.create() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(noisy)
            return session.run(by_mode)
    except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
        raise _refused(keras_model, "its layers cannot be called so") from error


def _in_one_call(
    keras_model: KerasModel, model: Model
) -> tuple[KerasModel, Callable[[Tensor, bool], list[Tensor]]]:
    """Return the model with the outputs to compare, and what computes these block by block."""
    if not layer_graph.is_functional(keras_model):
        return keras_model, lambda x, mode: [model.forward(x, mode)]

    def after_each(x: Tensor, mode: bool) -> list[Tensor]:
        results = []
        for block in model.blocks:
            x = keras_compat.call(block, x, mode)
            results.append(x)
        return results

    cuts = [segment.output for segment in layer_graph.segments(keras_model)]
    return tf.keras.Model(keras_model.inputs, cuts), after_each


def _refused(keras_model: KerasModel, why: str) -> ValueError:
    """Return the error of a model whose layers in a row are another model."""
    return ValueError(
        "a model's layers, one after the other, must compute what the model computes; "
        f"{_WAY_OUT}. Received: model={keras_model.name!r}: {why}"
    )


def random_batch(shape: Sequence[int], dtype: str) -> Tensor:
    """Return a few examples; integers are 0 and 1, which every vocabulary has."""
    rng, size = np.random.default_rng(0), (_BATCH, *shape)
    is_float = np.issubdtype(np.dtype(dtype), np.floating)
    return tf.constant(rng.normal(size=size) if is_float else rng.integers(0, 2, size), dtype)


def _noise(variable: Variable, seed: int) -> Tensor:
    """Return random numbers of a variable's shape; variances stay positive.

    With them nothing is hidden by a weight that starts as 0 or 1.
    """
    shape, low, high = variable.shape, 0.1, 0.5
    if len(shape) > 1:
        high = 1 / np.sqrt(np.prod(shape[:-1]))
        low = -high
    return tf.random.stateless_uniform(shape, (seed, 0), low, high, variable.dtype)


def _is_same(expected: Array, actual: Array) -> bool:
    if expected.shape != actual.shape:
        return False
    atol = 1e-5 * np.abs(expected).max()
    return np.allclose(actual, expected, rtol=1e-4, atol=atol, equal_nan=True)


def _described(actual: Array, expected: Array) -> str:
    if actual.shape != expected.shape:
        received, wanted = list(actual.shape[1:]), list(expected.shape[1:])
        return f"{received} values for an example instead of {wanted}"
    worst = np.argmax(np.abs(actual - expected))
    return f"{actual.flat[worst]:.4g} instead of {expected.flat[worst]:.4g}"
