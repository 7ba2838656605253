"""What each kind of Keras layer makes of the channels of its input.

A rule takes (analysis, layer, axes of the inputs, shape of the first input, shape of the output),
tells the analysis (`groups`) of which groups the layer's variables are, and returns the last axis
of its output. An axis of None is one whose channels are always kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable, NamedTuple, Optional

from tff_partial.core import normalization
from tff_partial.core.lazy import tf
from tff_partial.core.types import Layer, Structure

if TYPE_CHECKING:
    from tff_partial.submodels.groups import Analysis

CLASSES = -1  # the group of the logits, of which every client has all


class Axis(NamedTuple):
    """An axis whose element i belongs to channel i % size of a group, `repeat` times over."""

    group: int
    repeat: int = 1


Axes = Sequence[Optional[Axis]]
Shape = Sequence[Optional[int]]
Rule = Callable[..., Optional[Axis]]


def is_normalization(layer: Layer) -> bool:
    """Return whether a layer normalises."""
    return isinstance(layer, kinds(*_NORMALIZATIONS))


def is_convolution(layer: Layer) -> bool:
    """Return whether a layer is a convolution."""
    return isinstance(layer, kinds(*_CONVOLUTIONS, *_TRANSPOSED, *_DEPTHWISE, *_SEPARABLE))


def is_activation(layer: Layer) -> bool:
    """Return whether a layer is an activation or ends in one."""
    if isinstance(layer, kinds("ReLU", "LeakyReLU", "ELU", "PReLU", "ThresholdedReLU")):
        return True
    function = getattr(layer, "activation", None)
    return function is not None and function is not tf.keras.activations.linear


def inner(layer: Layer) -> list[Layer]:
    """Return the layers that a block or container consists of."""
    if isinstance(layer, tf.keras.Model):
        return list(layer.layers)
    return list(layer._flatten_layers(recursive=False, include_self=False))


def error(layer: Layer, why: str) -> ValueError:
    """Return the error of a layer that cannot be sliced."""
    return ValueError(
        "layers must be of kinds whose channels can be left out. "
        f"Received: layer={layer.name!r} ({type(layer).__name__}): {why}"
    )


def check(layer: Layer, inputs: int, others: Structure, outputs: Structure) -> None:
    """Raise a ValueError unless a rule can speak for the layer, as it was called."""
    is_known = type(layer) in _REGISTERED or type(layer).call.__module__.startswith("keras.")
    if rule_of(layer) and not is_known and not normalization.is_static(layer):
        raise error(layer, "its class has a `call` of its own")
    more = inputs > 1 and rule_of(layer) is not _elementwise
    more = more or any(tf.is_tensor(value) for value in tf.nest.flatten(others))
    if more or not tf.is_tensor(outputs):
        raise error(layer, "it must have one input and one output")


def unknown(analysis: Analysis, layer: Layer, *unused: Structure) -> Optional[Axis]:
    """Raise the error of a layer that has no rule."""
    raise error(layer, "it is of no such kind")


def _makes(size: str, **variables: str) -> Rule:
    """Return the rule of a layer that makes as many channels as its attribute `size` says.

    The last axes of a variable are `i`, channels of the input, `o`, those that are made, or `-`.
    """

    def rule(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Axis:
        _check_convolution(layer)
        out = a.new(layer, getattr(layer, size))
        meaning = {"i": axes[0], "o": out, "-": None}
        for name, letters in variables.items():
            made = letters.index("o") if "o" in letters else None
            a.own(getattr(layer, name), *(meaning[letter] for letter in letters), made=made)
        return out

    return rule


_convolution = _makes("filters", kernel="io", bias="o")
_transposed = _makes("filters", kernel="oi", bias="o")
_separable = _makes("filters", depthwise_kernel="i-", pointwise_kernel="io", bias="o")
_dense = _makes("units", kernel="io", bias="o")
_embedding = _makes("output_dim", embeddings="-o")


def _depthwise(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Optional[Axis]:
    _check_convolution(layer)
    a.own(layer.depthwise_kernel, axes[0], None)
    a.own(layer.bias, axes[0])
    return axes[0]


def _check_convolution(layer: Layer) -> None:
    is_last = getattr(layer, "data_format", "channels_last") == "channels_last"
    if not is_last or getattr(layer, "groups", 1) != 1:
        raise error(layer, "its channels must be the last axis and in one group")
    if getattr(layer, "depth_multiplier", 1) != 1:
        raise error(layer, "its depth_multiplier must be 1")


def _recurrent(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Axis:
    cell = layer.cell
    out = a.new(layer, cell.units)
    gates = Axis(out.group, cell.kernel.shape[-1] // cell.units)
    a.own(cell.kernel, axes[0], gates)
    a.own(cell.recurrent_kernel, out, gates)
    a.own(cell.bias, gates)
    return out


def _bidirectional(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Axis:
    """Put unit i of one direction into the group of unit i of the other."""
    if not isinstance(layer.forward_layer, kinds(*_RECURRENT)) or layer.merge_mode != "concat":
        raise error(layer, "it must concatenate the outputs of recurrent layers")
    directions = (layer.forward_layer, layer.backward_layer)
    forward, backward = (_recurrent(a, direction, axes) for direction in directions)
    a.join(layer, [forward, backward])
    return Axis(forward.group, 2)


def _normalization(
    a: Analysis, layer: Layer, axes: Axes, shape: Shape, *unused: Structure
) -> Optional[Axis]:
    axis = getattr(layer, "axis", -1)
    last = list(axis) if isinstance(axis, (list, tuple)) or hasattr(axis, "__iter__") else [axis]
    if last not in ([-1], [len(shape) - 1]):
        raise error(layer, "it must normalise the last axis")
    for variable in layer.variables:
        a.own(variable, axes[0])
    return axes[0]


def _prelu(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Optional[Axis]:
    a.own(layer.alpha, axes[0])
    return axes[0]


def _same(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Optional[Axis]:
    if getattr(layer, "data_format", None) == "channels_first":
        raise error(layer, "its channels must be the last axis")
    return axes[0]


def _elementwise(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Optional[Axis]:
    return a.join(layer, axes)


def _flatten(
    a: Analysis, layer: Layer, axes: Axes, shape: Shape, out_shape: Shape
) -> Optional[Axis]:
    if getattr(layer, "data_format", "channels_last") != "channels_last":
        raise error(layer, "its channels must be the last axis")
    if axes[0] is None or shape[-1] == out_shape[-1]:
        return axes[0]
    known = [size for size in shape[1:-1] if size is not None]
    if len(out_shape) != 2 or len(known) < len(shape) - 2 or shape[-1] is None:
        raise error(layer, "it must flatten inputs of a known size")
    return Axis(axes[0].group, axes[0].repeat * math.prod(known))


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
_RULES: tuple[tuple[tuple[str, ...], Rule], ...] = (
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
_REGISTERED: dict[type, Rule] = {}


def register(kind: type, rule: Rule) -> None:
    """Add the rule of a layer class of your own; docs/extending.md has an example."""
    _REGISTERED[kind] = rule


def rule_of(layer: Layer) -> Optional[Rule]:
    """Return the rule of a layer's kind."""
    known = (rule for names, rule in _RULES if isinstance(layer, kinds(*names)))
    return _REGISTERED.get(type(layer)) or next(known, None)


def kinds(*names: str) -> tuple[type, ...]:
    """Return the Keras layer classes of these names."""
    return tuple(getattr(tf.keras.layers, name) for name in names)
