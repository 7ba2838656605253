"""Nodes of TensorFlow graphs, as `graphs` and the modules that it uses rewrite them."""

import functools
import itertools
from collections.abc import Container, Iterable, Iterator

import tensorflow as tf
from tensorflow.python.framework import op_def_registry
from typing_extensions import TypeAlias

GraphDef: TypeAlias = tf.compat.v1.GraphDef
NodeDef: TypeAlias = tf.compat.v1.NodeDef

BOOL, RESOURCE, STRING, VARIANT = (
    dtype.as_datatype_enum for dtype in (tf.bool, tf.resource, tf.string, tf.variant)
)


def node_name(tensor: str) -> str:
    """Return the node of a tensor name or a (control) input: `a` for `^a`, `a:0` and `a`."""
    return tensor.lstrip("^").split(":")[0]


def all_nodes(graph_def: GraphDef) -> Iterator[NodeDef]:
    """Return the nodes of a graph and of the functions in its library."""
    return itertools.chain(graph_def.node, *(f.node_def for f in graph_def.library.function))


def replace_nodes(graph_def: GraphDef, nodes: Iterable[NodeDef]) -> None:
    """Make `nodes`, some of which may be the graph's own, the nodes of the graph."""
    copies = GraphDef()
    copies.node.extend(nodes)
    del graph_def.node[:]
    graph_def.node.extend(copies.node)


def drop_control_inputs(node: NodeDef, names: Container[str]) -> None:
    """Let a node no longer wait for the nodes of these names."""
    kept = [i for i in node.input if not (i.startswith("^") and i[1:] in names)]
    if len(kept) < len(node.input):
        del node.input[:]
        node.input.extend(kept)


def names_resources_in_functions(graph_def: GraphDef) -> bool:
    """Return whether functions of the graph's library create resources that have a name."""
    return any("shared_name" in n.attr for f in graph_def.library.function for n in f.node_def)


@functools.cache
def fixed_types(op: str) -> tuple[frozenset[int], frozenset[int]]:
    """Return the types of an op's arguments and results that no attribute decides."""
    definition = op_def_registry.get(op)
    if definition is None:
        return frozenset(), frozenset()
    return (
        frozenset(argument.type for argument in definition.input_arg),
        frozenset(result.type for result in definition.output_arg),
    )
