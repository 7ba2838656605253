"""Nodes of graphs."""

import tensorflow as tf

from tff_partial.runtime.in_process import nodes
from tff_partial.runtime.in_process.nodes import GraphDef, NodeDef


def test_names_of_inputs():
    assert [nodes.node_name(name) for name in ("a/b", "a/b:1", "^a/b")] == ["a/b"] * 3


def test_nodes_of_a_graph_are_replaced_by_some_of_its_own():
    graph = GraphDef(node=[NodeDef(name=name) for name in "abc"])
    nodes.replace_nodes(graph, [graph.node[2], NodeDef(name="d"), graph.node[0]])
    assert [node.name for node in graph.node] == ["c", "d", "a"]


def test_control_inputs_are_dropped_and_data_stay():
    node = NodeDef(name="sum", input=["a", "b:1", "^a", "^c"])
    nodes.drop_control_inputs(node, {"a", "b"})
    assert list(node.input) == ["a", "b:1", "^c"]


def test_nodes_and_named_resources_of_functions_are_found():
    graph = GraphDef(node=[NodeDef(name="outside")])
    inside = graph.library.function.add().node_def
    inside.append(NodeDef(name="inside"))
    assert [node.name for node in nodes.all_nodes(graph)] == ["outside", "inside"]
    assert not nodes.names_resources_in_functions(graph)
    inside[0].attr["shared_name"].s = b"table"
    assert nodes.names_resources_in_functions(graph)


def test_types_that_an_op_always_has():
    text, number = (dtype.as_datatype_enum for dtype in (tf.string, tf.float32))
    taken, given = nodes.fixed_types("StringToNumber")
    assert text in taken
    assert number not in given  # an attribute decides it
    assert nodes.RESOURCE in nodes.fixed_types("VarHandleOp")[1]
    assert nodes.fixed_types("of no library") == (frozenset(), frozenset())
