"""TFF's language, evaluated down to levels of steps."""

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.runtime.in_process.computations import at_clients, at_server, local, run
from tff_partial.runtime.in_process import compiler, planner
from tff_partial.runtime.in_process import context as in_process
from tff_partial.runtime.in_process.steps import CLIENTS, SERVER


def test_an_unknown_intrinsic_is_named(monkeypatch):
    computation = tff.federated_computation(
        lambda x: tff.sequence_sum(x), tff.SequenceType(np.int32)
    )
    monkeypatch.delitem(planner._INTRINSICS, "sequence_sum")
    with pytest.raises(NotImplementedError, match="intrinsic sequence_sum"):
        run(in_process.InProcessContext(), computation, [1, 2])


def plan(fn, *types):
    return planner.make_plan(compiler.compile_to_native(tff.federated_computation(fn, *types)))


def test_every_aggregation_that_depends_on_another_is_a_level():
    def twice(values):
        total = tff.federated_sum(values)
        again = tff.federated_map(add, (values, tff.federated_broadcast(total)))
        return tff.federated_sum(again)

    add = local(lambda x, y: x + y, np.int32, np.int32)
    levels = plan(twice, at_clients(np.int32)).levels
    assert [len(level.folds) for level in levels] == [1, 1, 0]
    assert [bool(level.clients.steps) for level in levels] == [False, True, False]


def test_what_is_passed_on_takes_no_step():
    parts = plan(lambda x, y: (y, x), at_clients(np.int32), at_server(np.float32))
    assert parts.result == parts.parameter[::-1]
    assert [leaf.region for leaf in parts.parameter] == [CLIENTS, SERVER]
    assert not any(level.server.steps or level.clients.steps for level in parts.levels)
