"""Loops in graphs: `Dataset.reduce` as a loop, and iterations that do not overlap.

TensorFlow prepares the function of a ReduceDataset op anew whenever the op runs, once for each
client of a stock TFF algorithm; that takes longer than small clients train. A while loop over an
iterator is prepared once.
"""

from tensorflow.core.framework.function_pb2 import FunctionDef

from tff_partial.runtime.in_process import nodes
from tff_partial.runtime.in_process.nodes import GraphDef, NodeDef


def unroll_reductions(graph_def: GraphDef) -> None:
    """Replace each ReduceDataset op by a loop, in place; an op of its name has its results."""
    reductions = [node for node in graph_def.node if node.op == "ReduceDataset"]
    if not reductions:
        return
    functions = {f.signature.name: f for f in graph_def.library.function}
    loops = [_Loop(node, functions[node.attr["f"].func.name]) for node in reductions]
    kept = [node for node in graph_def.node if node.op != "ReduceDataset"]
    nodes.replace_nodes(graph_def, [*kept, *(node for loop in loops for node in loop.nodes())])
    for loop in loops:
        graph_def.library.function.extend([loop.condition(), loop.body()])


def run_iterations_in_turn(graph_def: GraphDef) -> None:
    """Keep iterations of a loop from overlapping: oneDNN's kernels are not safe then."""
    for node in nodes.all_nodes(graph_def):
        if node.op in ("While", "StatelessWhile"):
            node.attr["parallel_iterations"].i = 1


class _Loop:
    """Loop variables: the next element (an optional), the state, the iterator, the captures."""

    def __init__(self, node: NodeDef, function: FunctionDef):
        self._name = node.name
        self._function = node.attr["f"].func
        self._state = list(node.attr["Tstate"].list.type)
        self._captures = list(node.attr["Targuments"].list.type)
        self._control = [i for i in node.input if i.startswith("^")]
        data = [i for i in node.input if not i.startswith("^")]
        first_capture = 1 + len(self._state)
        self._dataset = data[0]
        self._initial, self._captured = data[1:first_capture], data[first_capture:]
        # The function takes the state, an element and the captures.
        end = len(function.signature.input_arg) - len(self._captures)
        self._elements = [a.type for a in function.signature.input_arg[len(self._state) : end]]
        self._types = [nodes.VARIANT, *self._state, nodes.RESOURCE, *self._captures]
        # The function's name is unique in the process, and so is that of the node in the graph.
        self._prefix = f"{self._function.name}_{node.name.replace('/', '_').replace('.', '_')}"

    def nodes(self) -> list[NodeDef]:
        """Return the nodes of the loop, to be added to the graph."""
        iterator, made, first, loop = (
            f"{self._name}/{n}" for n in ("iterator", "made", "first", "loop")
        )
        variables = [first, *self._initial, iterator, *self._captured]
        while_node = _node(loop, "While", [*variables, *self._control, "^" + made])
        while_node.attr["T"].list.type.extend(self._types)
        while_node.attr["cond"].func.name = self._prefix + "_cond"
        while_node.attr["body"].func.name = self._prefix + "_body"
        while_node.attr["_lower_using_switch_merge"].b = True
        while_node.attr["parallel_iterations"].i = 1
        last_state = [f"{loop}:{1 + i}" for i in range(len(self._state))]
        results = _node(self._name, "IdentityN", last_state)
        results.attr["T"].list.type.extend(self._state)
        return [
            self._element_node(iterator, "AnonymousIteratorV3", []),
            _node(made, "MakeIterator", [self._dataset, iterator, *self._control]),
            self._element_node(first, "IteratorGetNextAsOptional", [iterator, "^" + made]),
            while_node,
            results,
        ]

    def condition(self) -> FunctionDef:
        """Return the function that tells whether there is another element."""
        function = self._create_function("_cond")
        function.signature.output_arg.add(name="more", type=nodes.BOOL)
        function.node_def.append(_node("has", "OptionalHasValue", ["v0"]))
        function.ret["more"] = "has:has_value:0"
        return function

    def body(self) -> FunctionDef:
        """Return the function that reduces the state by an element and fetches the next one."""
        function = self._create_function("_body")
        states = [f"v{1 + i}" for i in range(len(self._state))]
        iterator = f"v{1 + len(states)}"
        captures = [f"v{2 + len(states) + i}" for i in range(len(self._captures))]
        parts = [f"value:components:{i}" for i in range(len(self._elements))]
        call = _node("call", "StatefulPartitionedCall", [*states, *parts, *captures])
        call.attr["Tin"].list.type.extend([*self._state, *self._elements, *self._captures])
        call.attr["Tout"].list.type.extend(self._state)
        call.attr["f"].func.CopyFrom(self._function)
        value = self._element_node("value", "OptionalGetValue", ["v0"])
        next_inputs = [iterator, "^call"]
        following = self._element_node("following", "IteratorGetNextAsOptional", next_inputs)
        function.node_def.extend([value, call, following])
        returned = ["following:optional:0", *(f"call:output:{i}" for i in range(len(states)))]
        for i, (data_type, source) in enumerate(zip(self._types, [*returned, iterator, *captures])):
            function.signature.output_arg.add(name=f"r{i}", type=data_type)
            function.ret[f"r{i}"] = source
        return function

    def _create_function(self, suffix: str) -> FunctionDef:
        function = FunctionDef()
        function.signature.name = self._prefix + suffix
        function.signature.is_stateful = True
        for i, data_type in enumerate(self._types):
            function.signature.input_arg.add(name=f"v{i}", type=data_type)
        return function

    def _element_node(self, name: str, op: str, inputs: list[str]) -> NodeDef:
        """Return a node whose op has the types of the data set's elements as attributes."""
        node = _node(name, op, inputs)
        node.attr["output_types"].list.type.extend(self._elements)
        for _ in self._elements:
            node.attr["output_shapes"].list.shape.add(unknown_rank=True)
        return node


def _node(name: str, op: str, inputs: list[str]) -> NodeDef:
    # Control inputs come last.
    return NodeDef(name=name, op=op, input=sorted(inputs, key=lambda i: i.startswith("^")))
