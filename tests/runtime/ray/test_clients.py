import types

import numpy as np
import pytest
import tensorflow_federated as tff

pytest.importorskip("ray", reason="Ray is not installed: make ray")

from tests.runtime.in_process import computations
from tff_partial.runtime.in_process import compiler, planner
from tff_partial.runtime.ray.clients import RayClients
from tff_partial.runtime.ray.store import Store

NUMBERS = computations.at_clients(tff.TensorType(np.float32))


@tff.tensorflow.computation(np.float32)
def double(x):
    return 2 * x


@tff.federated_computation(NUMBERS)
def total(xs):
    return tff.federated_sum(tff.federated_map(double, xs))


@tff.federated_computation(NUMBERS)
def mean(xs):
    return tff.federated_mean(tff.federated_map(double, xs))


@tff.federated_computation(NUMBERS)
def total_and_all(xs):
    doubled = tff.federated_map(double, xs)
    return tff.federated_sum(doubled), doubled


@tff.federated_computation(NUMBERS)
def largest(xs):
    return tff.federated_max(tff.federated_map(double, xs))


def stages_of(computation, partial_sums=True):
    put = []
    clients = RayClients(None, Store(lambda value: put.append(value)), partial_sums)
    block = compiler.compile_to_native(computation)
    stages = clients.stages(block, planner.make_plan(block), {})
    return [stage.function for stage in stages], put


@pytest.mark.parametrize(
    ("computation", "adds_up"),
    [(total, True), (mean, True), (total_and_all, False), (largest, False)],
)
def test_only_sums_that_nothing_else_needs_are_added_up_on_actors(computation, adds_up):
    functions, put = stages_of(computation)
    assert len(put) == 1
    assert [function.add_up for function in functions if function] == [adds_up]
    functions, _ = stages_of(computation, partial_sums=False)
    assert not any(function.add_up for function in functions if function)


def test_levels_in_which_clients_do_nothing_need_no_actor():
    clients = RayClients(None, None, False)
    finished = []
    stage = types.SimpleNamespace(function=None)
    clients.run(None, {}, [stage] * 3, lambda client, results: finished.append((client, results)))
    assert finished == [(0, {}), (1, {}), (2, {})]
