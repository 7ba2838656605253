"""What kinds of layers make of the channels of their inputs: the rules that the table names.

A rule takes (analysis, layer, axes of the inputs, shape of the first input, shape of the output),
tells the analysis of which channels the layer's variables are, and returns the last axis of its
output. An axis is a list of neurons, or None if it is always kept. Rules of layers that move axes
take and return all axes instead (`Kind.moves`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable, Optional

import numpy as np

from tff_partial.core.lazy import tf
from tff_partial.core.types import Layer, Structure
from tff_partial.submodels import labels as moving
from tff_partial.submodels.labels import NotFollowed, Shape
from tff_partial.submodels.neurons import Labels, Owners

if TYPE_CHECKING:
    from tff_partial.submodels.analysis import Analysis

Axes = Sequence[Optional[Owners]]
Rule = Callable[..., Optional[Owners]]
MoveRule = Callable[..., Labels]


def makes(size: str, **variables: str) -> Rule:
    """Return the rule of a layer that makes as many channels as its attribute `size` says.

    The last axes of a variable are `i`, channels of the input, `o`, those that are made, or `-`.
    """

    def rule(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Optional[Owners]:
        out = a.new(layer, getattr(layer, size), size)
        meaning = {"i": axes[0], "o": out, "-": None}
        for name, letters in variables.items():
            made = letters.index("o") if "o" in letters else None
            a.own(getattr(layer, name), *(meaning[letter] for letter in letters), made=made)
        return activated(a, layer, out)

    return rule


def activated(a: Analysis, layer: Layer, axis: Optional[Owners]) -> Optional[Owners]:
    """Keep what a softmax compares; other activations treat each channel alone."""
    if getattr(layer, "activation", None) is tf.keras.activations.softmax and axis is not None:
        a.neurons.keep(axis)
    return axis


def convolution(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Optional[Owners]:
    """Of a grouped convolution, each group keeps the same of its channels.

    If each group has a single channel, whole groups are left out with it.
    """
    check_last(layer)
    axis, groups = axes[0], layer.groups
    if groups == 1:
        return _plain_convolution(a, layer, axes)
    out: Optional[Owners]
    if axis is not None and len(axis) == groups:
        out = a.resize(layer, "filters", np.repeat(axis, layer.filters // groups))
        a.resize(layer, "groups", axis)
        within = None
    else:
        out = a.new(layer, layer.filters, "filters")
        moving.join(a.neurons, np.split(out, groups))
        within = axis if axis is None else moving.join(a.neurons, np.split(axis, groups))
    a.own(layer.kernel, within, out)
    a.own(layer.bias, out)
    return activated(a, layer, out)


_plain_convolution = makes("filters", kernel="io", bias="o")
_plain_transposed = makes("filters", kernel="oi", bias="o")


def transposed(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Optional[Owners]:
    check_last(layer)
    return _plain_transposed(a, layer, axes)


def depthwise(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Optional[Owners]:
    """Repeat each channel by the depth multiplier."""
    check_last(layer)
    axis = axes[0]
    a.own(layer.depthwise_kernel, axis, None)
    out = None if axis is None else np.repeat(axis, layer.depth_multiplier)
    a.own(layer.bias, out)
    return activated(a, layer, out)


def separable(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Optional[Owners]:
    check_last(layer)
    axis, out = axes[0], a.new(layer, layer.filters, "filters")
    a.own(layer.depthwise_kernel, axis, None)
    between = None if axis is None else np.repeat(axis, layer.depth_multiplier)
    a.own(layer.pointwise_kernel, between, out)
    a.own(layer.bias, out)
    return activated(a, layer, out)


def check_last(layer: Layer) -> None:
    """Raise `NotFollowed` unless a layer's channels are the last axis."""
    if getattr(layer, "data_format", None) == "channels_first":
        raise NotFollowed("its channels must be the last axis")


def recurrent(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Owners:
    cell = layer.cell
    out = a.new(layer, cell.units, "units")
    gates = np.tile(out, cell.kernel.shape[-1] // cell.units)
    a.own(cell.kernel, axes[0], gates)
    a.own(cell.recurrent_kernel, out, gates)
    a.own(cell.bias, gates)
    return out


def bidirectional(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Owners:
    """Put unit i of one direction into the group of unit i of the other."""
    directions = (layer.forward_layer, layer.backward_layer)
    if not hasattr(layer.forward_layer, "cell") or layer.merge_mode != "concat":
        raise NotFollowed("it must concatenate the outputs of recurrent layers")
    forward, backward = (recurrent(a, direction, axes) for direction in directions)
    a.join(layer, [forward, backward])
    for name in ("layer", "backward_layer"):
        a.resize(layer, f"{name}/config/units", forward)
    return np.tile(forward, 2)


def attention(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Optional[Owners]:
    """Let heads be the channels: a head is kept with its queries, keys and values."""
    query, value, *key = axes
    heads = a.new(layer, layer._num_heads, "num_heads")
    out = query
    if layer._output_shape is not None:
        if shapes[1][-1] is None or layer._output_shape not in (shapes[1][-1], shapes[1][-1:]):
            raise NotFollowed("its output_shape must be one number")
        out = a.new(layer, shapes[1][-1], "output_shape")
    inputs = {"query": query, "key": [*key, value][0], "value": value}
    for name, axis in inputs.items():
        dense = getattr(layer, f"_{name}_dense")
        a.own(dense.kernel, axis, heads, None)
        a.own(dense.bias, heads, None)
    a.own(layer._output_dense.kernel, heads, None, out)
    a.own(layer._output_dense.bias, out)
    return out


def normalization(
    a: Analysis, layer: Layer, axes: Axes, shape: Shape, *unused: Structure
) -> Optional[Owners]:
    axis = getattr(layer, "axis", -1)
    last = list(axis) if isinstance(axis, (list, tuple)) or hasattr(axis, "__iter__") else [axis]
    if last not in ([-1], [len(shape) - 1]):
        raise NotFollowed("it must normalise the last axis")
    for variable in layer.variables:
        a.own(variable, axes[0])
    return axes[0]


def group_normalization(
    a: Analysis, layer: Layer, axes: Axes, shape: Shape, *unused: Structure
) -> Optional[Owners]:
    a.resize(layer, "groups", axes[0])
    return normalization(a, layer, axes, shape)


def input_statistics(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Optional[Owners]:
    if axes[0] is not None:
        raise NotFollowed("it must stand before the first layer that makes channels")
    return None


def prelu(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Optional[Owners]:
    a.own(layer.alpha, axes[0])
    return axes[0]


def same(a: Analysis, layer: Layer, axes: Axes, *shapes: Shape) -> Optional[Owners]:
    check_last(layer)
    return activated(a, layer, axes[0])


def softmax(
    a: Analysis, layer: Layer, axes: Axes, shape: Shape, *unused: Shape
) -> Optional[Owners]:
    """What a softmax compares is always kept."""
    if axes[0] is not None:
        a.neurons.keep(axes[0])
    return axes[0]


def elementwise(
    a: Analysis, layer: Layer, labels: Sequence[Labels], shapes: Sequence[Shape], out: Shape
) -> Labels:
    return moving.broadcast(a.neurons, list(zip(labels, shapes)), len(out))


def concatenate(
    a: Analysis, layer: Layer, labels: Sequence[Labels], shapes: Sequence[Shape], out: Shape
) -> Labels:
    return moving.concat(a.neurons, list(zip(labels, shapes)), layer.axis, len(out))


def permute(
    a: Analysis, layer: Layer, labels: Sequence[Labels], shapes: Sequence[Shape], out: Shape
) -> Labels:
    return moving.transpose(labels[0], [0, *layer.dims])


def reshape(
    a: Analysis, layer: Layer, labels: Sequence[Labels], shapes: Sequence[Shape], out: Shape
) -> Labels:
    check_last(layer)
    result = moving.reshape(a.neurons, labels[0], shapes[0], out)
    for i, size in enumerate(getattr(layer, "target_shape", ())):
        if size > 0:
            a.resize(layer, f"target_shape/{i}", result[i + 1])
    return result


def repeat(
    a: Analysis, layer: Layer, labels: Sequence[Labels], shapes: Sequence[Shape], out: Shape
) -> Labels:
    return (None, None, *labels[0][1:])
