"""What goes to actors and comes back: arrays and bytes that Ray's object store holds as they are.

A client's record, a data set of one element, goes as its arrays. Other data sets, and those with
strings, go as the bytes of their graph.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple, Optional, Union

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from typing_extensions import TypeAlias

from tff_partial.core.types import Array, Tensor
from tff_partial.runtime.in_process import values
from tff_partial.runtime.in_process.steps import LeafType, LeafValue

# The ops of the graph of a data set of one element, which is there as it is.
_ELEMENT_OPS = {"Const", "TensorDataset", "Identity", "_Retval"}


class PackedElement(NamedTuple):
    """A data set of one element: its components."""

    components: list[Array]


class PackedGraph(NamedTuple):
    """Any other data set: its serialized graph."""

    graph: bytes


PackedSequence: TypeAlias = Union[PackedElement, PackedGraph]
Packed: TypeAlias = Union[Array, PackedSequence]
"""A leaf's value: an array for a tensor."""


def pack(value: LeafValue, type_spec: LeafType) -> Packed:
    """Return a leaf's value as it is sent."""
    if isinstance(type_spec, tff.SequenceType):
        return pack_sequence(value)
    dtype = tf.as_dtype(type_spec.dtype.type)
    if isinstance(value, tf.Tensor) or dtype == tf.string:
        return np.asarray(values.to_tensor(value, type_spec).numpy())
    return np.asarray(value, dtype.as_numpy_dtype)


def unpack(packed: Packed, type_spec: LeafType) -> Tensor:
    """Return what `pack` was given as a tensor; its memory is that of the array if it can be."""
    if isinstance(packed, PackedElement):
        tensors = [tf.convert_to_tensor(component) for component in packed.components]
        shapes = [component.shape for component in packed.components]
        return tf.raw_ops.TensorDataset(components=tensors, output_shapes=shapes)
    if isinstance(packed, PackedGraph):
        return tf.raw_ops.DatasetFromGraph(graph_def=packed.graph)
    return tf.convert_to_tensor(packed, tf.as_dtype(type_spec.dtype.type))


def pack_sequence(variant: Tensor) -> PackedSequence:
    """Return a data set as it is sent."""
    graph = tf.raw_ops.DatasetToGraphV2(input_dataset=variant).numpy()
    components = _components(graph)
    return PackedGraph(graph) if components is None else PackedElement(components)


def _components(serialized: bytes) -> Optional[list[Array]]:
    """Return the components of the element if the graph holds just one, as it is."""
    graph = tf.compat.v1.GraphDef.FromString(serialized)
    nodes = {node.name: node for node in graph.node}
    if {node.op for node in graph.node} - _ELEMENT_OPS:
        return None
    datasets = [node for node in graph.node if node.op == "TensorDataset"]
    if len(datasets) != 1:
        return None
    constants = [nodes[name.split(":")[0]] for name in datasets[0].input]
    string = tf.string.as_datatype_enum
    if any(node.op != "Const" or node.attr["dtype"].type == string for node in constants):
        return None
    return [tf.make_ndarray(node.attr["value"].tensor) for node in constants]


def digest(packed: PackedSequence) -> bytes:
    """Return a hash of the content; equal graphs need not have equal bytes, equal elements do."""
    content = hashlib.blake2b(digest_size=16)
    if isinstance(packed, PackedGraph):
        content.update(packed.graph)
        return content.digest()
    for component in packed.components:
        content.update(f"{component.dtype.str} {component.shape};".encode())
        content.update(np.ascontiguousarray(component).reshape(-1).view(np.uint8).data)
    return content.digest()


def size_of(packed: Iterable[Packed]) -> int:
    """Return the number of bytes that values take."""
    return sum(
        value.nbytes
        if isinstance(value, np.ndarray)
        else len(value.graph)
        if isinstance(value, PackedGraph)
        else sum(component.nbytes for component in value.components)
        for value in packed
    )
