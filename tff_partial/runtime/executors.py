"""Loops whose ops run one after the other, in one thread.

TensorFlow's usual executor hands ops that could run at the same time to a pool of threads. Here the
clients already run in parallel, one intra-op thread each, so that handing over only costs. The
body of a loop can use TensorFlow's single-threaded executor instead, if the loop stays a `While` op
and nothing in its body has to wait for the pool: an op that does would block a thread of the pool,
and two clients could block each other for ever.
"""

from __future__ import annotations

import re
from typing import Any

import tensorflow as tf

_SINGLE = "SINGLE_THREADED_EXECUTOR"
_LOOPS = frozenset({"While", "StatelessWhile"})
# Ops that wait for others; so does every op that calls a function.
_WAITING = re.compile("Iterator|Dataset|Queue|Barrier|Recv|Send|Collective|Stage|Enter|Switch|Rpc")


def compiler_config() -> Any:
    """What TFF's compiler lets Grappler do: as TFF has it, but loops stay `While` ops."""
    config = tf.compat.v1.ConfigProto()
    options = config.graph_options.rewrite_options
    options.memory_optimization = options.AGGRESSIVE
    options.constant_folding = options.AGGRESSIVE
    options.arithmetic_optimization = options.AGGRESSIVE
    options.loop_optimization = options.AGGRESSIVE
    options.function_optimization = options.AGGRESSIVE
    config.experimental.executor_type = _SINGLE
    return config


def run_loops_in_one_thread(graph_def: Any) -> None:
    """Marks the loops of a graph whose body never waits, in place."""
    functions = {f.signature.name: f for f in graph_def.library.function}
    for body in (graph_def.node, *(f.node_def for f in functions.values())):
        for node in body:
            if node.op not in _LOOPS:
                continue
            called = [node.attr[name].func for name in ("cond", "body")]
            if not any(_may_wait(n) for f in called for n in functions[f.name].node_def):
                node.attr.pop("_lower_using_switch_merge", None)
                for function in called:
                    function.attr["_executor"].s = _SINGLE.encode()


def _may_wait(node: Any) -> bool:
    calls = any(attr.HasField("func") or attr.list.func for attr in node.attr.values())
    return calls or _WAITING.search(node.op) is not None
