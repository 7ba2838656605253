"""The order of a graph's initializer and its results, and which initial values nobody needs.

TFF's graphs have no edges between the initializer and the ops that use the variables, because a
session runs one after the other. In one function the order needs edges.
"""

import graphlib
from collections.abc import Callable, Iterable, Mapping

from tff_partial.runtime.in_process.nodes import (
    RESOURCE,
    GraphDef,
    NodeDef,
    drop_control_inputs,
    fixed_types,
    names_resources_in_functions,
    node_name,
    replace_nodes,
)

Nodes = Mapping[str, NodeDef]


def order(graph_def: GraphDef, initialize_op: str, roots: set[str]) -> None:
    """Keep what `roots` and the initializer need; run the initializer before resources are used.

    The graph is changed in place. `roots` are the nodes that compute the results; `initialize_op`
    is empty if there is no initializer.
    """
    nodes = {node.name: node for node in graph_def.node}
    main = _ancestors(nodes, roots)
    init: set[str] = set()
    if initialize_op:
        init = _drop_overwritten(nodes, main, initialize_op)
        all_wait = names_resources_in_functions(graph_def)
        for name in main - init:
            if all_wait or _takes_resource(nodes, nodes[name]):
                nodes[name].input.append("^" + initialize_op)
    kept = main | init
    replace_nodes(graph_def, [node for node in graph_def.node if node.name in kept])


def _ancestors(nodes: Nodes, roots: Iterable[str]) -> set[str]:
    """Return the nodes from which `roots` are computed, `roots` included."""
    reached: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(node_name(i) for i in nodes[name].input)
    return reached


def _takes_resource(nodes: Nodes, node: NodeDef) -> bool:
    data = (i for i in node.input if not i.startswith("^"))
    return not _yields_resource(node) and any(_yields_resource(nodes[node_name(i)]) for i in data)


def _yields_resource(node: NodeDef) -> bool:
    return RESOURCE in fixed_types(node.op)[1]


def _drop_overwritten(nodes: Nodes, main: set[str], initialize_op: str) -> set[str]:
    """Remove initial values that nothing can read; return what is left of the initializer.

    A variable's initial value is dead when one assignment of the main part comes before every other
    use there, and the initializer itself only assigns the variable.
    """
    init = _ancestors(nodes, [initialize_op])
    comes_after = _follows(nodes, main)
    dead = set()
    for handle, users in _users_of_variables(nodes, main | init).items():
        early = users & init
        only_assigned = all(nodes[name].op == "AssignVariableOp" for name in early)
        apart = only_assigned and not early & main
        if apart and _assigned_first(nodes, handle, users - early, comes_after):
            dead |= early
    for name in init:
        drop_control_inputs(nodes[name], dead)
    return _ancestors(nodes, [initialize_op])


def _users_of_variables(nodes: Nodes, names: set[str]) -> dict[str, set[str]]:
    users: dict[str, set[str]] = {}
    for name in names:
        for i in nodes[name].input:
            source = _handle(nodes, i)
            is_use = not i.startswith("^") and nodes[name].op != "Identity"
            if is_use and nodes[source].op == "VarHandleOp":
                users.setdefault(source, set()).add(name)
    return users


def _handle(nodes: Nodes, name: str) -> str:
    """Return where an input comes from: inlining a function leaves identities of its arguments."""
    source = node_name(name)
    while nodes[source].op == "Identity" and not name.startswith("^"):
        name = nodes[source].input[0]
        source = node_name(name)
    return source


def _assigned_first(
    nodes: Nodes, handle: str, users: set[str], comes_after: Callable[[str, str], bool]
) -> bool:
    """Return whether one of the users assigns the variable and all the others come after it."""
    return not users or any(
        nodes[name].op == "AssignVariableOp"
        and _handle(nodes, nodes[name].input[0]) == handle
        and all(comes_after(user, name) for user in users)
        for name in users
    )


def _follows(nodes: Nodes, main: set[str]) -> Callable[[str, str], bool]:
    """Return (node, assignment) -> whether the node is the assignment or comes after it.

    One pass serves all assignments, each of which has a bit: a graph may have hundreds. What comes
    after it only in the next iteration of a loop, does not.
    """
    inputs = {
        name: [s for s in map(node_name, nodes[name].input) if nodes[s].op != "NextIteration"]
        for name in main
    }
    assignments = [name for name in main if nodes[name].op == "AssignVariableOp"]
    bits = {name: 1 << i for i, name in enumerate(assignments)}
    after: dict[str, int] = {}
    for name in graphlib.TopologicalSorter(inputs).static_order():
        after[name] = bits.get(name, 0)
        for source in inputs[name]:
            after[name] |= after[source]
    return lambda name, assignment: bool(after[name] & bits[assignment])
