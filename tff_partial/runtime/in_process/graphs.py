"""TFF's TensorFlow graphs, prepared for import into a function of this process.

TFF runs a graph in a session of its own: first `initialize_op`, then the results. Here both run in
one call of one function that several threads share, so `prepare` rewrites the graph:

* Only what the results and the initializer need is kept.
* Variables and tables become anonymous resources: every call has its own, freed with the call.
  Parallel clients can therefore never see each other's variables, although they share the function.
* Whatever touches a resource waits for the initializer. An initial value that is overwritten before
  anything can read it is not computed at all: drawing random weights for every client would cost
  more than small clients train.
* Functions in the graph's library get unique names, since TensorFlow keeps one list of functions
  for the process.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable
from typing import Optional

import tensorflow as tf
from tensorflow_federated.proto.v0 import computation_pb2
from typing_extensions import TypeAlias

from tff_partial.core.types import Tensor
from tff_partial.runtime.in_process import devices, initializers, loops
from tff_partial.runtime.in_process.nodes import (
    GraphDef,
    all_nodes,
    drop_control_inputs,
    names_resources_in_functions,
    node_name,
)

AttrValue: TypeAlias = tf.compat.v1.AttrValue

# The name by which TensorFlow's kernels know a variable that belongs to its handle only.
_ANONYMOUS = b"cd2c89b7-88b7-44c8-ad83-06c2a9158347"

# Shared tables, and the ops that create the same table without a name.
_ANONYMOUS_TABLES = {
    "HashTableV2": "AnonymousHashTable",
    "MutableHashTableV2": "AnonymousMutableHashTable",
    "MutableHashTableOfTensorsV2": "AnonymousMutableHashTableOfTensors",
    "MutableDenseHashTableV2": "AnonymousMutableDenseHashTable",
}
_NAMING_ATTRS = ("container", "shared_name", "use_node_name_sharing")

_unique = itertools.count()


@dataclasses.dataclass(frozen=True)
class PreparedGraph:
    """A rewritten graph that `emit` adds to the function being traced."""

    graph_def: GraphDef
    feeds: tuple[str, ...]  # tensor names of the parameter's leaves, in their order
    fetches: tuple[str, ...]  # tensor names of the result's leaves, in their order
    token: Optional[str]  # the tensor that takes a string that is unique to the session
    exclusive: bool  # whether two calls at a time could meet in a resource that has a name
    key: bytes  # the same for graphs that were made from the same computation

    def emit(self, arguments: Iterable[Tensor]) -> list[Tensor]:
        """Import the graph into the current one and return the result tensors."""
        fed = dict(zip(self.feeds, arguments))
        if self.token:
            fed[self.token] = tf.constant(f"call-{next(_unique)}")
        kept = {node.name for node in self.graph_def.node}
        input_map = {
            name: _in_this_graph(tensor) for name, tensor in fed.items() if node_name(name) in kept
        }
        computed = [name for name in self.fetches if name not in fed]
        tensors = tf.graph_util.import_graph_def(
            self.graph_def, input_map=input_map, return_elements=computed, name="tff"
        )
        results = {**fed, **dict(zip(computed, tensors))}
        return [results[name] for name in self.fetches]


def _in_this_graph(tensor: Tensor) -> Tensor:
    """Capture a tensor of the function around the current one by an op of the current one."""
    return tensor if tensor.graph is tf.compat.v1.get_default_graph() else tf.identity(tensor)


def prepare(tensorflow: computation_pb2.TensorFlow) -> PreparedGraph:
    """Rewrite the graph of a TFF computation as the module's docstring says.

    Raises:
      NotImplementedError: If the graph has an op whose state would survive the call.
    """
    graph_def = GraphDef()
    if not tensorflow.graph_def.Unpack(graph_def):
        raise ValueError(f"expected a GraphDef. Received: {tensorflow.graph_def.type_url}")
    for node in all_nodes(graph_def):
        if node.op == "OneShotIterator":  # belongs to its kernel
            raise NotImplementedError(
                f"in_process cannot run {node.op} (node {node.name}): its state survives the call"
            )
    feeds = _tensor_names(tensorflow.parameter)
    fetches = _tensor_names(tensorflow.result)
    token = tensorflow.session_token_tensor_name or None
    parameters = {node_name(name) for name in (*feeds, token or "")}
    for node in graph_def.node:  # only the data inputs of parameters are replaced on import
        drop_control_inputs(node, parameters)
    _rename_functions(graph_def, f"_{next(_unique)}")
    _merge_aliases(graph_def)
    roots = {node_name(name) for name in fetches}
    initializers.order(graph_def, tensorflow.initialize_op, roots)
    exclusive = _make_anonymous(graph_def)
    loops.unroll_reductions(graph_def)
    loops.run_iterations_in_turn(graph_def)
    for node, device in zip(graph_def.node, devices.place(graph_def.node)):
        node.device = device
        node.attr.pop("_class", None)  # names neighbours that may be gone
    key = hashlib.sha256(tensorflow.SerializeToString(deterministic=True)).digest()
    return PreparedGraph(graph_def, feeds, fetches, token, exclusive, key)


def _tensor_names(binding: computation_pb2.TensorFlow.Binding) -> tuple[str, ...]:
    """Return the tensor names of a parameter or result, in the order of the type's leaves."""
    kind = binding.WhichOneof("binding")
    if kind == "tensor":
        return (binding.tensor.tensor_name,)
    if kind == "sequence":
        return (binding.sequence.variant_tensor_name,)
    return tuple(name for element in binding.struct.element for name in _tensor_names(element))


def _rename_functions(graph_def: GraphDef, suffix: str) -> None:
    names = {function.signature.name for function in graph_def.library.function}
    if not names:
        return
    for function in graph_def.library.function:
        function.signature.name += suffix
    for gradient in graph_def.library.gradient:
        gradient.function_name += suffix
        gradient.gradient_func += suffix
    for node in all_nodes(graph_def):
        if node.op in names:
            node.op += suffix
        for attr in node.attr.values():
            _rename_in_attr(attr, names, suffix)


def _rename_in_attr(attr: AttrValue, names: set[str], suffix: str) -> None:
    functions = [*attr.list.func, *([attr.func] if attr.HasField("func") else [])]
    for function in functions:
        if function.name in names:
            function.name += suffix
        for inner in function.attr.values():
            _rename_in_attr(inner, names, suffix)


def _merge_aliases(graph_def: GraphDef) -> None:
    """Make ops that name the same variable or table one op."""
    first: dict[tuple[str, bytes, bytes], str] = {}
    same: dict[str, str] = {}
    for node in graph_def.node:
        can_be_anonymous = node.op == "VarHandleOp" or node.op in _ANONYMOUS_TABLES
        if can_be_anonymous and node.attr["shared_name"].s:
            key = (node.op, node.attr["container"].s, node.attr["shared_name"].s)
            same[node.name] = first.setdefault(key, node.name)
    for node in graph_def.node:
        for i, name in enumerate(node.input):
            source = node_name(name)
            if same.get(source, source) != source:
                node.input[i] = name.replace(source, same[source], 1)


def _make_anonymous(graph_def: GraphDef) -> bool:
    """Take resources' names away; return whether some had to keep one, of this graph's own."""
    if not names_resources_in_functions(graph_def):
        for node in graph_def.node:
            if node.op == "VarHandleOp":
                node.attr["shared_name"].s = _ANONYMOUS
            elif node.op in _ANONYMOUS_TABLES:
                node.op = _ANONYMOUS_TABLES[node.op]
                for name in _NAMING_ATTRS:
                    node.attr.pop(name, None)
    suffix = f"_in_process_{next(_unique)}".encode()
    named = [node for node in all_nodes(graph_def) if "shared_name" in node.attr]
    named = [node for node in named if node.attr["shared_name"].s != _ANONYMOUS]
    for node in named:
        node.attr["shared_name"].s = (node.attr["shared_name"].s or node.name.encode()) + suffix
    return bool(named)
