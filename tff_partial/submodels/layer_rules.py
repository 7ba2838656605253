"""What each kind of Keras layer makes of the channels of its input.

A rule takes (analysis, layer, axes of the inputs, shape of the first input, shape of the output),
tells the analysis (`channel_groups`) of which groups the layer's variables are, and returns the
last axis of its output. An axis of None is one whose channels are always kept.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tff_partial.core import normalization
from tff_partial.core.lazy import tf

CLASSES = -1  # the group of the logits, of which every client has all


class Axis(NamedTuple):
    """An axis whose element i belongs to channel i % size of a group, `repeat` times over."""

    group: int
    repeat: int = 1


def is_normalization(layer: Any) -> bool:
    """Whether it is a layer that normalises."""
    return isinstance(layer, kinds(*_NORMALIZATIONS))


def is_convolution(layer: Any) -> bool:
    """Whether it is a convolution."""
    return isinstance(layer, kinds(*_CONVOLUTIONS, *_TRANSPOSED, *_DEPTHWISE, *_SEPARABLE))


def is_activation(layer: Any) -> bool:
    if isinstance(layer, kinds("ReLU", "LeakyReLU", "ELU", "PReLU", "ThresholdedReLU")):
        return True
    function = getattr(layer, "activation", None)
    return function is not None and function is not tf.keras.activations.linear


def inner(layer: Any) -> list[Any]:
    """The layers that a block or container consists of."""
    if isinstance(layer, tf.keras.Model):
        return list(layer.layers)
    return list(layer._flatten_layers(recursive=False, include_self=False))


def error(layer: Any, why: str) -> ValueError:
    return ValueError(
        "layers must be of kinds whose channels can be left out. "
        f"Received: layer={layer.name!r} ({type(layer).__name__}): {why}"
    )


def check(layer: Any, inputs: int, others: Any, outputs: Any) -> None:
    """Raises a ValueError unless a rule can speak for the layer, as it was called."""
    is_of_keras = type(layer).call.__module__.startswith("keras.")
    if rule_of(layer) and not is_of_keras and not normalization.is_static(layer):
        raise error(layer, "its class has a `call` of its own")
    more = inputs > 1 and rule_of(layer) is not _elementwise
    more = more or any(tf.is_tensor(value) for value in tf.nest.flatten(others))
    if more or not tf.is_tensor(outputs):
        raise error(layer, "it must have one input and one output")


def unknown(analysis: Any, layer: Any, *unused: Any) -> Any:
    raise error(layer, "it is of no such kind")


def _convolution(a: Any, layer: Any, axes: Any, *shapes: Any) -> Axis:
    _check_convolution(layer)
    out = a.new(layer, layer.filters)
    a.own(layer.kernel, axes[0], out)
    a.own(layer.bias, out)
    return out


def _transposed(a: Any, layer: Any, axes: Any, *shapes: Any) -> Axis:
    _check_convolution(layer)
    out = a.new(layer, layer.filters)
    a.own(layer.kernel, out, axes[0])
    a.own(layer.bias, out)
    return out


def _depthwise(a: Any, layer: Any, axes: Any, *shapes: Any) -> Any:
    _check_convolution(layer)
    a.own(layer.depthwise_kernel, axes[0], None)
    a.own(layer.bias, axes[0])
    return axes[0]


def _separable(a: Any, layer: Any, axes: Any, *shapes: Any) -> Axis:
    _check_convolution(layer)
    out = a.new(layer, layer.filters)
    a.own(layer.depthwise_kernel, axes[0], None)
    a.own(layer.pointwise_kernel, axes[0], out)
    a.own(layer.bias, out)
    return out


def _check_convolution(layer: Any) -> None:
    if layer.data_format != "channels_last" or layer.groups != 1:
        raise error(layer, "its channels must be the last axis and in one group")
    if getattr(layer, "depth_multiplier", 1) != 1:
        raise error(layer, "its depth_multiplier must be 1")


def _dense(a: Any, layer: Any, axes: Any, *shapes: Any) -> Axis:
    out = a.new(layer, layer.units)
    a.own(layer.kernel, axes[0], out)
    a.own(layer.bias, out)
    return out


def _embedding(a: Any, layer: Any, *unused: Any) -> Axis:
    out = a.new(layer, layer.output_dim)
    a.own(layer.embeddings, None, out)
    return out


def _recurrent(a: Any, layer: Any, axes: Any, *shapes: Any) -> Axis:
    cell = layer.cell
    out = a.new(layer, cell.units)
    gates = Axis(out.group, cell.kernel.shape[-1] // cell.units)
    a.own(cell.kernel, axes[0], gates)
    a.own(cell.recurrent_kernel, out, gates)
    a.own(cell.bias, gates)
    return out


def _bidirectional(a: Any, layer: Any, axes: Any, *shapes: Any) -> Axis:
    """Unit i of one direction belongs with unit i of the other."""
    if not isinstance(layer.forward_layer, kinds(*_RECURRENT)) or layer.merge_mode != "concat":
        raise error(layer, "it must concatenate the outputs of recurrent layers")
    directions = (layer.forward_layer, layer.backward_layer)
    out = a.join(layer, [_recurrent(a, direction, axes) for direction in directions])
    return Axis(out.group, 2)


def _normalization(a: Any, layer: Any, axes: Any, shape: Any, *unused: Any) -> Any:
    axis = getattr(layer, "axis", -1)
    last = list(axis) if isinstance(axis, (list, tuple)) or hasattr(axis, "__iter__") else [axis]
    if last not in ([-1], [len(shape) - 1]):
        raise error(layer, "it must normalise the last axis")
    for variable in layer.variables:
        a.own(variable, axes[0])
    return axes[0]


def _prelu(a: Any, layer: Any, axes: Any, *shapes: Any) -> Any:
    a.own(layer.alpha, axes[0])
    return axes[0]


def _same(a: Any, layer: Any, axes: Any, *shapes: Any) -> Any:
    if getattr(layer, "data_format", None) == "channels_first":
        raise error(layer, "its channels must be the last axis")
    return axes[0]


def _elementwise(a: Any, layer: Any, axes: Any, *shapes: Any) -> Any:
    return a.join(layer, axes)


def _flatten(a: Any, layer: Any, axes: Any, shape: Any, out_shape: Any) -> Any:
    if getattr(layer, "data_format", "channels_last") != "channels_last":
        raise error(layer, "its channels must be the last axis")
    if axes[0] is None or shape[-1] == out_shape[-1]:
        return axes[0]
    if len(out_shape) != 2 or None in shape[1:]:
        raise error(layer, "it must flatten inputs of a known size")
    return Axis(axes[0].group, axes[0].repeat * math.prod(shape[1:-1]))


_CONVOLUTIONS = ("Conv1D", "Conv2D", "Conv3D")
_TRANSPOSED = ("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose")
_DEPTHWISE = ("DepthwiseConv1D", "DepthwiseConv2D")
_SEPARABLE = ("SeparableConv1D", "SeparableConv2D")
_RECURRENT = ("LSTM", "GRU", "SimpleRNN")
_NORMALIZATIONS = ("BatchNormalization", "LayerNormalization", "GroupNormalization")
_BY_DIMENSION = (
    *("MaxPooling", "AveragePooling", "GlobalMaxPooling", "GlobalAveragePooling"),
    *("ZeroPadding", "UpSampling", "Cropping", "SpatialDropout"),
)
_PASSING = (
    *(f"{kind}{dimension}D" for kind in _BY_DIMENSION for dimension in (1, 2, 3)),
    *("ReLU", "LeakyReLU", "ELU", "ThresholdedReLU", "Activation", "Rescaling"),
    *("Dropout", "AlphaDropout", "GaussianNoise", "GaussianDropout", "InputLayer"),
)
MAKERS = (_convolution, _transposed, _separable, _dense, _embedding, _recurrent, _bidirectional)
# The first that fits: some kinds are subclasses of others.
_RULES: tuple[tuple[tuple[str, ...], Any], ...] = (
    (_TRANSPOSED, _transposed),
    (_DEPTHWISE, _depthwise),
    (_SEPARABLE, _separable),
    (_CONVOLUTIONS, _convolution),
    (("Dense",), _dense),
    (("Embedding",), _embedding),
    (_RECURRENT, _recurrent),
    (("Bidirectional",), _bidirectional),
    (_NORMALIZATIONS, _normalization),
    (("PReLU",), _prelu),
    (("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"), _elementwise),
    (("Flatten", "Reshape"), _flatten),
    (_PASSING, _same),
)


def rule_of(layer: Any) -> Any:
    return next((rule for names, rule in _RULES if isinstance(layer, kinds(*names))), None)


def kinds(*names: str) -> tuple[Any, ...]:
    return tuple(getattr(tf.keras.layers, name) for name in names)
