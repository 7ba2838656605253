"""Narrow copies of layers that consist of others: models, wrappers and layers of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, Optional

from tff_partial.core.lazy import tf
from tff_partial.core.types import KerasModel, Layer, Structure
from tff_partial.submodels import op_layers
from tff_partial.submodels.labels import Shape

Narrow = Callable[[Layer], Layer]
SizesOf = Callable[[Layer], Sequence[Optional[int]]]


def copy(layer: Layer, narrow: Narrow, shapes: Sequence[Shape], sizes_of: SizesOf) -> Layer:
    """Return a layer that consists of narrow copies of what this one consists of.

    Args:
      layer: The model or layer.
      narrow: Returns the narrow copy of a layer, the same one for the same layer.
      shapes: Shapes of its inputs.
      sizes_of: Layer -> sizes of its output's channel axes, None for what is always kept.
    """
    if isinstance(layer, tf.keras.Sequential):
        inner = [narrow(x) for x in layer.layers]
        return type(layer)([tf.keras.Input(shapes[0]), *inner], name=layer.name)
    if getattr(layer, "_is_graph_network", False):
        return _functional(layer, narrow, shapes, sizes_of)
    if isinstance(layer, tf.keras.layers.TimeDistributed):
        return type(layer)(narrow(layer.layer), name=layer.name)
    return _own(layer, narrow)


def _functional(
    model: KerasModel, narrow: Narrow, shapes: Sequence[Shape], sizes_of: SizesOf
) -> KerasModel:
    """Call the narrow layers as the model calls its own."""
    inputs = [tf.keras.Input(s, dtype=x.dtype) for s, x in zip(shapes, model.inputs)]
    uses = model._tensor_usage_count
    tensors = {str(id(x)): [y] * uses[str(id(x))] for x, y in zip(model.inputs, inputs)}
    for depth in sorted(model._nodes_by_depth, reverse=True):
        for node in model._nodes_by_depth[depth]:
            if node.is_input:
                continue
            args, kwargs = node.map_arguments(tensors)
            if op_layers.is_op(node.layer):
                outputs = op_layers.repeat(node.layer, args, kwargs, sizes_of(node.layer))
            else:
                outputs = narrow(node.layer)(*args, **kwargs)
            for key, y in zip(node.flat_output_ids, tf.nest.flatten(outputs)):
                tensors[key] = [y] * uses[key]
    outputs = [tensors[str(id(x))].pop() for x in model.outputs]
    packed = tf.nest.pack_sequence_as(model._nested_outputs, outputs)
    return tf.keras.Model(inputs if len(inputs) > 1 else inputs[0], packed, name=model.name)


def _own(layer: Layer, narrow: Narrow) -> Layer:
    """Copy a layer of the user's own with its attributes, whose layers become narrow ones.

    Its `__init__` is not run, as nobody knows its arguments; nor is its `build`.
    """
    base = tf.keras.Model if isinstance(layer, tf.keras.Model) else tf.keras.layers.Layer
    kind = type(layer)
    made: Layer = kind.__new__(kind)  # type: ignore[call-overload]
    base.__init__(made, name=layer.name)
    given = {key: value for key, value in vars(layer).items() if key not in vars(base())}
    for key, value in given.items():
        if key not in vars(made) and not key.startswith("_self_"):
            setattr(made, key, _narrowed(value, narrow))
    made.built = layer.built
    return made


def _narrowed(value: Structure, narrow: Narrow) -> Structure:
    """Replace the layers in an attribute, also within lists, tuples and dictionaries."""
    if isinstance(value, tf.keras.layers.Layer):
        return narrow(value)
    if isinstance(value, (list, tuple)):
        return [_narrowed(x, narrow) for x in value]
    if isinstance(value, dict):
        return {key: _narrowed(x, narrow) for key, x in value.items()}
    return value


def free_copy(layer: Layer) -> Layer:
    """Return a copy of a layer without variables, such as a Lambda."""
    if isinstance(layer, tf.keras.layers.Lambda):
        return tf.keras.layers.Lambda(layer.function, arguments=layer.arguments, name=layer.name)
    return type(layer).from_config(layer.get_config())
