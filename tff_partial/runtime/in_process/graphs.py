"""TFF's TensorFlow graphs, made ready to be imported into a function of this process.

TFF runs a graph in a session of its own: first `initialize_op`, then the results. Here both run in
one call of one function that several threads share, so `prepare` rewrites the graph:

* Only what the results and the initialiser need is kept.
* Variables and tables become anonymous resources: every call has its own, freed with the call.
  Parallel clients can therefore never see each other's variables, although they share the function.
* Whatever touches a resource waits for the initialiser. An initial value that is overwritten before
  anything can read it is not computed at all: drawing random weights for every client would cost
  more than small clients train.
* Functions in the graph's library get unique names, since TensorFlow keeps one list of functions
  for the process.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable
from typing import Any, Optional

import tensorflow as tf
from tensorflow_federated.proto.v0 import computation_pb2

from tff_partial.runtime.in_process import devices, initializers, loops

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

# A one-shot iterator belongs to its kernel: a second call would go on where the first one stopped.
_REFUSED_OPS = frozenset({"OneShotIterator"})

_unique = itertools.count()


@dataclasses.dataclass(frozen=True)
class PreparedGraph:
    """A graph that `emit` adds to the function being traced.

    Attributes:
      graph_def: the rewritten graph.
      feeds: tensor names of the parameters, in the order of the parameter's leaves.
      fetches: tensor names of the results, in the order of the result's leaves.
      token: the tensor that wants a string that is unique to the session, if any.
      exclusive: whether two calls at a time could meet in a resource that has a name.
      key: the same for graphs that were made of the same computation.
    """

    graph_def: Any
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    token: Optional[str]
    exclusive: bool
    key: bytes

    def emit(self, arguments: Iterable[Any]) -> list[Any]:
        """Imports the graph into the current one and returns the result tensors."""
        fed = dict(zip(self.feeds, arguments))
        if self.token:
            fed[self.token] = tf.constant(f"call-{next(_unique)}")
        kept = {node.name for node in self.graph_def.node}
        input_map = {name: _here(tensor) for name, tensor in fed.items() if node_name(name) in kept}
        wanted = [name for name in self.fetches if name not in fed]
        found = tf.graph_util.import_graph_def(
            self.graph_def, input_map=input_map, return_elements=wanted, name="tff"
        )
        results = dict(zip(wanted, found))
        return [results[name] if name in results else fed[name] for name in self.fetches]


def _here(tensor: Any) -> Any:
    """A tensor of the function around the current one is captured by an op of the current one."""
    return tensor if tensor.graph is tf.compat.v1.get_default_graph() else tf.identity(tensor)


def prepare(tensorflow: computation_pb2.TensorFlow) -> PreparedGraph:
    """Rewrites the graph of a TFF computation (see the module's text).

    Raises:
      NotImplementedError: the graph has an op whose state would survive the call.
    """
    graph_def = tf.compat.v1.GraphDef()
    if not tensorflow.graph_def.Unpack(graph_def):
        raise ValueError(f"expected a GraphDef. Received: {tensorflow.graph_def.type_url}")
    _refuse(graph_def)
    feeds = binding_names(tensorflow.parameter)
    fetches = binding_names(tensorflow.result)
    roots = {node_name(name) for name in fetches}
    token = tensorflow.session_token_tensor_name or None
    _wait_for_no_parameter(graph_def, {node_name(name) for name in (*feeds, token or "")})
    _rename_functions(graph_def, f"_{next(_unique)}")
    _merge_aliases(graph_def)
    initializers.order(graph_def, tensorflow.initialize_op, roots)
    exclusive = _make_anonymous(graph_def)
    loops.unroll_reductions(graph_def)
    _run_iterations_in_turn(graph_def)
    for node in graph_def.node:
        node.attr.pop("_class", None)  # names neighbours that may be gone
    for node, device in zip(graph_def.node, devices.place(graph_def.node)):
        node.device = device
    key = hashlib.sha256(tensorflow.SerializeToString(deterministic=True)).digest()
    return PreparedGraph(graph_def, tuple(feeds), tuple(fetches), token, exclusive, key)


def node_name(tensor: str) -> str:
    """The node of a tensor name or of a (control) input: `^a`, `a:0` and `a` are `a`."""
    return tensor.lstrip("^").split(":")[0]


def binding_names(binding: Any) -> list[str]:
    """The tensor names of a parameter or result binding, in the order of the type's leaves."""
    kind = binding.WhichOneof("binding")
    if kind is None:
        return []
    if kind == "tensor":
        return [binding.tensor.tensor_name]
    if kind == "sequence":
        return [binding.sequence.variant_tensor_name]
    return [name for element in binding.struct.element for name in binding_names(element)]


def _bodies(graph_def: Any) -> Iterable[Any]:
    return itertools.chain(graph_def.node, *(f.node_def for f in graph_def.library.function))


def _refuse(graph_def: Any) -> None:
    for node in _bodies(graph_def):
        if node.op in _REFUSED_OPS:
            raise NotImplementedError(
                f"in_process cannot run {node.op} (node {node.name}): its state survives the call"
            )


def _wait_for_no_parameter(graph_def: Any, parameters: set[str]) -> None:
    """Removes control inputs from placeholders: only their data inputs are replaced on import."""
    for node in graph_def.node:
        kept = [i for i in node.input if not (i.startswith("^") and i[1:] in parameters)]
        if len(kept) < len(node.input):
            del node.input[:]
            node.input.extend(kept)


def _run_iterations_in_turn(graph_def: Any) -> None:
    """Keeps iterations of a loop from overlapping: oneDNN's kernels are not safe then."""
    for node in _bodies(graph_def):
        if node.op in ("While", "StatelessWhile"):
            node.attr["parallel_iterations"].i = 1


def _rename_functions(graph_def: Any, suffix: str) -> None:
    names = {function.signature.name for function in graph_def.library.function}
    if not names:
        return
    for function in graph_def.library.function:
        function.signature.name += suffix
    for gradient in graph_def.library.gradient:
        gradient.function_name += suffix
        gradient.gradient_func += suffix
    for node in _bodies(graph_def):
        if node.op in names:
            node.op += suffix
        for attr in node.attr.values():
            _rename_in_attr(attr, names, suffix)


def _rename_in_attr(attr: Any, names: set[str], suffix: str) -> None:
    functions = list(attr.list.func)
    if attr.HasField("func"):
        functions.append(attr.func)
    for function in functions:
        if function.name in names:
            function.name += suffix
        for inner in function.attr.values():
            _rename_in_attr(inner, names, suffix)


def _merge_aliases(graph_def: Any) -> None:
    """Lets ops that name the same variable or table be one op."""
    first: dict[tuple[str, bytes, bytes], str] = {}
    same: dict[str, str] = {}
    for node in graph_def.node:
        if _can_be_anonymous(node.op) and node.attr["shared_name"].s:
            key = (node.op, node.attr["container"].s, node.attr["shared_name"].s)
            same[node.name] = first.setdefault(key, node.name)
    for node in graph_def.node:
        for i, name in enumerate(node.input):
            source = node_name(name)
            if same.get(source, source) != source:
                node.input[i] = name.replace(source, same[source], 1)


def _can_be_anonymous(op: str) -> bool:
    return op == "VarHandleOp" or op in _ANONYMOUS_TABLES


def _make_anonymous(graph_def: Any) -> bool:
    """Frees resources of their names; returns whether some had to keep one."""
    inside = any("shared_name" in n.attr for f in graph_def.library.function for n in f.node_def)
    if not inside:
        for node in graph_def.node:
            if node.op == "VarHandleOp":
                node.attr["shared_name"].s = _ANONYMOUS
            elif node.op in _ANONYMOUS_TABLES:
                node.op = _ANONYMOUS_TABLES[node.op]
                for name in _NAMING_ATTRS:
                    node.attr.pop(name, None)
    return _make_unique(graph_def)


def _make_unique(graph_def: Any) -> bool:
    """Gives named resources a name of this graph's own; returns whether there are any."""
    suffix = f"_in_process_{next(_unique)}".encode()
    found = False
    for node in _bodies(graph_def):
        if "shared_name" in node.attr and node.attr["shared_name"].s != _ANONYMOUS:
            node.attr["shared_name"].s = (node.attr["shared_name"].s or node.name.encode()) + suffix
            found = True
    return found
