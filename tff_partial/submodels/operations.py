"""What operations between layers make of channels: `x + y`, `tf.nn.relu(x)`, `tf.concat`.

They are read from the graph of the forward pass, wherever they were written: between the layers of
a functional model (Keras keeps those as `TFOpLambda`s), in a Lambda layer, or in a layer of the
user's own that consists of other layers. A rule takes (analysis, operation, labels of its inputs)
and returns the labels of its outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable, Optional

import numpy as np

from tff_partial.core.lazy import tf
from tff_partial.core.types import Structure, Tensor
from tff_partial.submodels import labels as moving
from tff_partial.submodels.labels import NotFollowed, Shape
from tff_partial.submodels.neurons import Labels, Owners

if TYPE_CHECKING:
    from tff_partial.submodels.analysis import Analysis

Operation = Structure  # a `tf.Operation`
Rule = Callable[["Analysis", Operation, Sequence[Labels]], Sequence[Labels]]


def follow(analysis: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    """Return the labels of an operation's outputs.

    Raises:
      NotFollowed: If there is no rule, or it cannot speak for the channels of its inputs.
    """
    inputs = [analysis.neurons.without_kept(labels) for labels in inputs]
    if all(moving.is_free(labels) for labels in inputs):
        return [moving.none(output.shape.rank) for output in op.outputs]
    if op.type not in _RULES:
        raise NotFollowed(f"channels cannot be followed through the operation {op.type}")
    return _RULES[op.type](analysis, op, inputs)


def _value(tensor: Tensor) -> list[Optional[int]]:
    """Return the elements of a constant, None for those that are not known."""
    value = tf.get_static_value(tensor, partial=True)
    if value is None:
        raise NotFollowed("which axes it works on is not a constant")
    return [None if x is None else int(x) for x in np.reshape(value, [-1])]


def _axes(tensor: Tensor) -> list[int]:
    value = _value(tensor)
    if None in value:
        raise NotFollowed("which axes it works on is not a constant")
    return [x for x in value if x is not None]


def _shapes(op: Operation) -> list[Shape]:
    return [tuple(tensor.shape) for tensor in op.inputs]


def _same(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    """Of several inputs (those of IdentityN), each becomes an output."""
    return inputs[: len(op.outputs)]


def _elementwise(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    rank = op.outputs[0].shape.rank
    return [moving.broadcast(a.neurons, list(zip(inputs, _shapes(op))), rank)]


def _concat(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    (axis,), rank = _axes(op.inputs[-1]), op.outputs[0].shape.rank
    return [moving.concat(a.neurons, list(zip(inputs[:-1], _shapes(op))), axis, rank)]


def _split(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    """Split into equal parts; their channels are kept together, so that they remain equal."""
    (axis,), labels = _axes(op.inputs[0]), inputs[1]
    owners = labels[axis]
    if owners is None:
        return [labels] * len(op.outputs)
    axis %= len(labels)
    parts = np.split(owners, len(op.outputs))
    moving.join(a.neurons, parts)
    return [(*labels[:axis], part, *labels[axis + 1 :]) for part in parts]


def _pack(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    joined = moving.broadcast(a.neurons, list(zip(inputs, _shapes(op))), len(inputs[0]))
    axis = op.get_attr("axis") % (len(joined) + 1)
    return [(*joined[:axis], None, *joined[axis:])]


def _unpack(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    return [moving.reduce(inputs[0], [op.get_attr("axis")], keep=False)] * len(op.outputs)


def _transpose(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    return [moving.transpose(inputs[0], _axes(op.inputs[1]))]


def _expand(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    (axis,), labels = _axes(op.inputs[1]), inputs[0]
    axis %= len(labels) + 1
    return [(*labels[:axis], None, *labels[axis:])]


def _squeeze(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    shape = op.inputs[0].shape
    given = op.get_attr("squeeze_dims") or [i for i, size in enumerate(shape) if size == 1]
    squeezed = {axis % len(shape) for axis in given}
    return [tuple(x for i, x in enumerate(inputs[0]) if i not in squeezed)]


def _reshape(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    (before, _), after = _shapes(op), tuple(op.outputs[0].shape)
    result = moving.reshape(a.neurons, inputs[0], before, after)
    if any(x is not None and fixed for x, fixed in zip(result, _literals(op.inputs[1], after))):
        a.check_literal(op.name)
    return [result]


def _literals(shape: Tensor, after: Shape) -> list[bool]:
    """Return which sizes of a shape are written as numbers."""
    if shape.op.type == "Pack":
        return [x.op.type == "Const" and tf.get_static_value(x) >= 0 for x in shape.op.inputs]
    value = tf.get_static_value(shape)
    return [False] * len(after) if value is None else [size >= 0 for size in value]


def _reduce(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    return [moving.reduce(inputs[0], _axes(op.inputs[1]), op.get_attr("keep_dims"))]


def _softmax(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    """What a softmax compares is always kept."""
    if inputs[0][-1] is not None:
        a.neurons.keep(inputs[0][-1])
    return inputs


def _pad(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    """Zeros beside channels belong to no neuron."""
    widths = np.reshape(_axes(op.inputs[1]), [-1, 2])
    padded = [x if x is None else np.pad(x, width) for x, width in zip(inputs[0], widths)]
    return [tuple(padded)]


def _slice(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    """Take what stands at some places of axes that are always kept."""
    bits = {m: op.get_attr(f"{m}_mask") for m in ("ellipsis", "new_axis", "shrink_axis")}
    whole = op.get_attr("begin_mask") & op.get_attr("end_mask")
    begins, labels = _value(op.inputs[1]), list(inputs[0])
    result: list[Optional[Owners]] = []
    for i in range(len(begins)):
        if bits["ellipsis"] >> i & 1:
            after = sum(not bits["new_axis"] >> j & 1 for j in range(i + 1, len(begins)))
            result += [labels.pop(0) for _ in range(len(labels) - after)]
        elif bits["new_axis"] >> i & 1:
            result.append(None)
        else:
            owners, shrinks = labels.pop(0), bits["shrink_axis"] >> i & 1
            if owners is not None and (shrinks or not whole >> i & 1):
                raise NotFollowed("it takes channels by their position")
            result += [] if shrinks else [owners]
    return [(*result, *labels)]


def _gather(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    (axis,), labels, indices = _axes(op.inputs[2]), inputs[0], inputs[1]
    axis %= len(labels)
    if labels[axis] is not None or not moving.is_free(indices):
        raise NotFollowed("it takes channels by their position")
    batch = op.get_attr("batch_dims")
    return [(*labels[:axis], *moving.none(len(indices) - batch), *labels[axis + 1 :])]


def _matmul(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    names = [("transpose_a", "transpose_b"), ("adj_x", "adj_y")][op.type != "MatMul"]
    sides = []
    for labels, name in zip(inputs, names):
        turned = [*labels[:-2], labels[-1], labels[-2]]
        sides.append(turned if op.get_attr(name) else list(labels))
    (*_, rows, inner), (*_, other, columns) = sides
    if inner is not None or other is not None:
        raise NotFollowed("it multiplies and adds up channels without weights")
    batch = [(tuple(side[:-2]), shape[:-2]) for side, shape in zip(sides, _shapes(op))]
    rank = op.outputs[0].shape.rank - 2
    return [(*moving.broadcast(a.neurons, batch, rank), rows, columns)]


def _einsum(a: Analysis, op: Operation, inputs: Sequence[Labels]) -> Sequence[Labels]:
    equation = op.get_attr("equation").decode()
    terms, output = equation.split("->")
    if "." in equation:
        raise NotFollowed("its equation must name all axes")
    axes: dict[str, list] = {}
    for term, labels in zip(terms.split(","), inputs):
        for letter, owners in zip(term, labels):
            axes.setdefault(letter, []).append(owners)
    joined = {letter: moving.join(a.neurons, owners) for letter, owners in axes.items()}
    if any(joined[letter] is not None for letter in {*joined} - {*output}):
        raise NotFollowed("it multiplies and adds up channels without weights")
    return [tuple(joined[letter] for letter in output)]


_UNARY = (
    *("Identity", "IdentityN", "Snapshot", "Cast", "StopGradient", "PreventGradient"),
    *(
        "CheckNumerics",
        "EnsureShape",
        "Relu",
        "Relu6",
        "Elu",
        "Selu",
        "LeakyRelu",
        "Sigmoid",
        "Tanh",
        "Softplus",
    ),
    *("Softsign", "Exp", "Expm1", "Log", "Log1p", "Sqrt", "Rsqrt", "Square", "Abs", "Neg", "Sign"),
    *("Erf", "Erfc", "Sin", "Cos", "Reciprocal", "Inv", "Floor", "Ceil", "Round", "Rint"),
    *("LogicalNot", "ZerosLike", "OnesLike"),
)
_BINARY = (
    *("Add", "AddV2", "AddN", "BiasAdd", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "FloorDiv"),
    *("Maximum", "Minimum", "Pow", "SquaredDifference", "SelectV2", "Select", "Xdivy", "MulNoNan"),
    *("Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual", "ClipByValue"),
    *("LogicalAnd", "LogicalOr"),
)
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_UNARY, _same),
    **dict.fromkeys(_BINARY, _elementwise),
    **dict.fromkeys(("Mean", "Sum", "Max", "Min", "Prod", "All", "Any"), _reduce),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    **dict.fromkeys(("Pad", "PadV2"), _pad),
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2"), _matmul),
    "ConcatV2": _concat,
    "Split": _split,
    "Pack": _pack,
    "Unpack": _unpack,
    "Transpose": _transpose,
    "ExpandDims": _expand,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "StridedSlice": _slice,
    "GatherV2": _gather,
    "Einsum": _einsum,
}
