"""Cuts a functional Keras model into blocks, at the tensors through which everything passes.

The nodes of a model are the calls of its layers, operations such as `x + y` included, in an order
in which each follows those whose outputs it takes. Between two of them a model can be cut where
one tensor alone is still needed: every path from the input to the output goes through it.

    needed <- {input}
    for each node:
        needed <- needed + its outputs - what neither a later node nor the output takes
        if needed is a single tensor: cut here

No cut is made between two calls of a layer with variables, which stay in one block, nor at a
tensor with a mask, which would not survive where activations are recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tff_partial.core.lazy import tf
from tff_partial.core.types import KerasModel, KerasNode, KerasTensor, Layer


class Segment(NamedTuple):
    """What is between two cuts: the calls, and the one tensor before and after them."""

    nodes: Sequence[KerasNode]
    input: KerasTensor
    output: KerasTensor


def is_functional(model: KerasModel) -> bool:
    """Return whether a model is its graph of layers; a Sequential is its list of them."""
    from keras.src.engine import functional

    return isinstance(model, functional.Functional) and (
        type(model).call is functional.Functional.call
    )


def blocks(model: KerasModel) -> list[Layer]:
    """Return layers with one input and one output tensor that are, in a row, the model.

    They have the model's variables. A layer between two cuts is a block as it is, unless it is
    called with arguments; what else is between two cuts is a functional model, which is named
    after what its layers' names begin with, or after the last of them.

    Raises:
      ValueError: If the model has several inputs or outputs, or losses of its own.
    """
    made: list[Layer] = []
    names = set[str]()
    for segment in segments(model):
        layer = segment.nodes[0].layer
        if not _is_layer(segment) or layer.name in names:
            name = _unique(_name_of(segment.nodes), names)
            layer = tf.keras.Model(segment.input, segment.output, name=name)
        names.add(layer.name)
        made.append(layer)
    return made


def segments(model: KerasModel) -> list[Segment]:
    """Return what is between the cuts of a functional model, as `blocks` does."""
    (start,), (end,) = _ends(model)
    nodes = _sorted_nodes(model, end)
    last_uses = {id(t): i for i, node in enumerate(nodes) for t in node.keras_inputs}
    last_uses[id(end)] = len(nodes)
    closed = _between_calls(nodes)
    found: list[Segment] = []
    needed, first = {id(start): start}, 0
    for i, node in enumerate(nodes):
        needed |= {id(t): t for t in tf.nest.flatten(node.outputs)}
        needed = {key: t for key, t in needed.items() if last_uses.get(key, -1) > i}
        (tensor, *others) = needed.values()
        if not others and i not in closed and _mask(tensor) is None:
            found.append(Segment(nodes[first : i + 1], start, tensor))
            start, first = tensor, i + 1
    if first < len(nodes):  # the output itself has a mask
        found.append(Segment(nodes[first:], start, end))
    return found


def _ends(model: KerasModel) -> tuple[Sequence[KerasTensor], Sequence[KerasTensor]]:
    """Return the model's inputs and outputs, one of each."""
    counts = len(model.inputs), len(model.outputs)
    if counts != (1, 1) or isinstance(model.output, dict):
        raise ValueError(
            "a functional model must have one input and one output tensor. "
            f"Received: model={model.name!r} with {counts[0]} and {counts[1]}, {model.output}"
        )
    return model.inputs, model.outputs


def _sorted_nodes(model: KerasModel, end: KerasTensor) -> list[KerasNode]:
    """Return the calls that the output needs, each after those whose outputs it takes."""
    by_depth = sorted(model._nodes_by_depth.items(), reverse=True)
    nodes = [node for _, nodes in by_depth for node in nodes if not node.is_input]
    taken, kept = {id(end)}, list[KerasNode]()
    for node in reversed(nodes):
        if taken & {id(tensor) for tensor in tf.nest.flatten(node.outputs)}:
            taken |= {id(tensor) for tensor in node.keras_inputs}
            kept.append(node)
        elif type(node.layer).__name__ == "AddLoss":
            raise ValueError(
                "a functional model must have no losses of its own; add them in the call of a "
                f"layer. Received: model={model.name!r} with add_loss"
            )
    if not kept:
        raise ValueError(f"a model must have a layer. Received: model={model.name!r} without")
    return kept[::-1]


def _between_calls(nodes: Sequence[KerasNode]) -> set[int]:
    """Return the positions after which a variable is used that was used before."""
    first: dict[int, int] = {}
    closed = set[int]()
    for i, node in enumerate(nodes):
        for key in _state(node.layer):
            closed.update(range(first.setdefault(key, i), i))
    return closed


def _state(layer: Layer) -> Iterator[int]:
    """Yield the ids of what two calls of a layer have in common."""
    yield from (id(variable) for variable in layer.variables)
    for inner in layer._flatten_layers():
        is_own = not type(inner).__module__.startswith("keras.")
        if is_own or inner.activity_regularizer is not None:
            yield id(inner)


def _mask(tensor: KerasTensor) -> object:
    return getattr(tensor, "_keras_mask", None)


def _is_operation(layer: Layer) -> bool:
    """Return whether it stands for what was computed between layers, such as `x + y`."""
    from keras.src.layers.core import tf_op_layer

    kinds = ("TFOpLambda", "InstanceProperty", "InstanceMethod", "ClassMethod")
    return isinstance(layer, tuple(getattr(tf_op_layer, kind) for kind in kinds))


def _is_layer(segment: Segment) -> bool:
    """Return whether a segment is one layer that is called with a tensor and nothing else."""
    node = segment.nodes[0]
    if len(segment.nodes) > 1 or _is_operation(node.layer):
        return False
    arguments = tf.nest.flatten((node.call_args, node.call_kwargs))
    is_alone = len(node.call_args) == 1 and node.call_args[0] is segment.input
    return is_alone and all(a is None or a is segment.input for a in arguments[1:])


def _name_of(nodes: Sequence[KerasNode]) -> str:
    """Return what the names of the layers have in common, else the last one's name."""
    words = [node.layer.name.split("_") for node in nodes if not _is_operation(node.layer)]
    common = list[str]()
    for column in zip(*words):
        if len({*column}) > 1:
            break
        common.append(column[0])
    if common and words:
        return "_".join(common)
    last = nodes[-1].layer
    # tf.__operators__.add_3, tf.nn.relu
    return re.sub(r"_\d+$", "", last.name.split(".")[-1]) if _is_operation(last) else last.name


def _unique(name: str, taken: set[str]) -> str:
    numbered = (f"{name}_{i}" if i else name for i in range(len(taken) + 1))
    return next(candidate for candidate in numbered if candidate not in taken)
