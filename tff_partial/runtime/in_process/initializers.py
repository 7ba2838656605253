"""The order of a graph's initialiser and its results, and what of the initialiser nobody needs.

TFF's graphs have no edges between the initialiser and the ops that use the variables: a session
runs one after the other. In one function the order needs edges.
"""

import functools
from collections.abc import Iterable
from typing import Any

from tensorflow.python.framework import op_def_registry

_RESOURCE = 20  # DT_RESOURCE


def order(graph_def: Any, initialize_op: str, roots: set[str]) -> None:
    """Keeps what `roots` and the initialiser need, the initialiser before every use of a resource.

    Args:
      graph_def: the graph, changed in place.
      initialize_op: the name of the initialiser's op, or an empty string.
      roots: the names of the nodes that yield the results.
    """
    nodes = {node.name: node for node in graph_def.node}
    main = _ancestors(nodes, roots)
    if not initialize_op:
        _keep(graph_def, main)
        return
    init = _drop_overwritten(nodes, main, initialize_op)
    touched_inside = _names_resources_inside(graph_def)
    for name in main - init:
        if touched_inside or _takes_resource(nodes, nodes[name]):
            nodes[name].input.append("^" + initialize_op)
    _keep(graph_def, main | init)


def _source(name: str) -> str:
    return name.lstrip("^").split(":")[0]


def _ancestors(nodes: dict[str, Any], roots: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(_source(i) for i in nodes[name].input)
    return found


def _keep(graph_def: Any, names: set[str]) -> None:
    kept = [node for node in graph_def.node if node.name in names]
    # A node that was removed may still be named by a device or colocation; those are dropped later.
    copies = [type(node).FromString(node.SerializeToString()) for node in kept]
    del graph_def.node[:]
    graph_def.node.extend(copies)


@functools.cache
def _yields_resource(op: str) -> bool:
    definition = op_def_registry.get(op)
    return definition is not None and any(arg.type == _RESOURCE for arg in definition.output_arg)


def _takes_resource(nodes: dict[str, Any], node: Any) -> bool:
    if _yields_resource(node.op):
        return False
    return any(not i.startswith("^") and _yields_resource(nodes[_source(i)].op) for i in node.input)


def _names_resources_inside(graph_def: Any) -> bool:
    return any("shared_name" in n.attr for f in graph_def.library.function for n in f.node_def)


def _drop_overwritten(nodes: dict[str, Any], main: set[str], initialize_op: str) -> set[str]:
    """Removes initial values that nothing can read; returns what is left of the initialiser.

    A variable's initial value is dead when one assignment of the main part comes before every other
    use there, and the initialiser itself only assigns the variable.
    """
    init = _ancestors(nodes, [initialize_op])
    successors = _successors(nodes, main)
    dead = set()
    for handle, users in _users_of_variables(nodes, main | init).items():
        early = {name for name in users if name in init}
        only_assigned = all(nodes[name].op == "AssignVariableOp" for name in early)
        if (
            only_assigned
            and not early & main
            and _assigned_first(nodes, handle, users - early, successors)
        ):
            dead |= early
    for name in init:
        kept = [i for i in nodes[name].input if not (i.startswith("^") and _source(i) in dead)]
        if len(kept) < len(nodes[name].input):
            del nodes[name].input[:]
            nodes[name].input.extend(kept)
    return _ancestors(nodes, [initialize_op])


def _users_of_variables(nodes: dict[str, Any], names: set[str]) -> dict[str, set[str]]:
    users: dict[str, set[str]] = {}
    for name in names:
        for i in nodes[name].input:
            source = _handle(nodes, i)
            is_use = not i.startswith("^") and nodes[name].op != "Identity"
            if is_use and nodes[source].op == "VarHandleOp":
                users.setdefault(source, set()).add(name)
    return users


def _handle(nodes: dict[str, Any], name: str) -> str:
    """Where a data input comes from: inlining a function leaves identities of its arguments."""
    source = _source(name)
    while nodes[source].op == "Identity" and not name.startswith("^"):
        name = nodes[source].input[0]
        source = _source(name)
    return source


def _successors(nodes: dict[str, Any], names: set[str]) -> dict[str, list[str]]:
    successors: dict[str, list[str]] = {name: [] for name in names}
    for name in names:
        for i in nodes[name].input:
            successors[_source(i)].append(name)
    return successors


def _assigned_first(
    nodes: dict[str, Any], handle: str, users: set[str], successors: dict[str, list[str]]
) -> bool:
    """Whether one of the users assigns the variable and all the others come after it."""
    if not users:
        return True
    for name in users:
        if nodes[name].op == "AssignVariableOp" and _handle(nodes, nodes[name].input[0]) == handle:
            after: set[str] = set()
            waiting = [name]
            while waiting:
                for successor in successors[waiting.pop()]:
                    if successor not in after:
                        after.add(successor)
                        waiting.append(successor)
            if users <= after | {name}:
                return True
    return False
