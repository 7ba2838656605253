"""One battery over all algorithms: a new one adds a line to OFF and to BAD."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import computation_pb2

from tests import tiny
from tff_partial.algorithms import registry
from tff_partial.core.local_training import LocalTraining
from tff_partial.processes import stateful

# Hyperparameters with which an algorithm's special feature is off, so that it is FedAvg.
# For those with tiers it is that all clients are strong, as in `tiny.run` by default, for FedUMF
# that all take part in every round. None: it cannot be switched off (see test_stateful.py).
OFF = {
    "fedavg": {},
    "embracing": {},
    "fedpmt": {},
    "prefix": {},
    "channel": {},
    "fedpart": {"full_rounds": 100},
    "fedprox": {"mu": 0.0},
    "fednova": None,  # equal steps are FedAvg's up to rounding (test_fednova.py)
    "fedumf": {},
    "scaffold": None,
    "feddyn": None,
    "feddc": None,
    "fedumf_feddc": None,
    "partial_averaging": None,
    "periodic_averaging": None,
    "vrl_sgd": None,
    "adaptive_averaging": None,
    "post_local_sgd": None,
    "feddse": {"masked_logits": False, "masked_rows": False},
    "feddf": {"examples": 0},
    "heterofl": {"masked_logits": False, "masked_rows": False},
    "fedrolex": {"masked_logits": False, "masked_rows": False},
    "fiarse": {},
    "feddropout": {"masked_logits": False},
    "fjord": {"tiers": ("strong",)},
    "width_reduction": {},
}
# Hyperparameters that must be refused.
BAD = {
    "fedavg": [{"weighting": "none"}, {"server_learning_rate": -1.0}],
    "embracing": [{"weighting": "none"}, {"head_statistics": "none"}, {"tiers": ("9",)}],
    "fedpmt": [{"option": "III"}, {"masks": "1"}, {"masks": "a", "option": "device"}],
    "prefix": [{"weighting": "none"}, {"tiers": ("0.0001",)}],
    "channel": [{"share": 0.0}, {"share": 2.0}],
    "fedpart": [{"full_rounds": -1}, {"rounds_per_group": 0}, {"weighting": "none"}],
    "fedprox": [{"mu": -1.0}, {"weighting": "none"}],
    "fednova": [{"weighting": "none"}],
    "fedumf": [{"alpha": 0.0}, {"alpha": 1.5}, {"weighting": "none"}],
    "scaffold": [{"population": None}, {"population": 0}],
    "feddyn": [{"alpha": -1.0}, {"population": None}],
    "feddc": [{"alpha": -1.0}, {"population": None}],
    "partial_averaging": [{"partition": "row"}, {"design": 3}, {"rounds_active": -1}, {"mu": -1.0}],
    "periodic_averaging": [{"design": 0}, {"weighting": "none"}, {"mu": -1.0}],
    "vrl_sgd": [{"rounds_active": -2}],
    "adaptive_averaging": [{"design": 0}, {"measure_steps": True}],
    "post_local_sgd": [{"synchronous_rounds": -1}, {"measure_steps": True}],
    "feddse": [
        {"temperature": -1.0},
        {"mask": "inputs"},
        {"inference_examples": -1},
        {"tiers": ("7",)},
    ],
    "feddf": [{"examples": -1}, {"steps": 0}, {"learning_rate": -1.0}, {"weighting": "none"}],
    "heterofl": [{"tiers": ("2/1",)}, {"weighting": "none"}],
    "fedrolex": [{"tiers": ("1/0",)}],
    "fiarse": [{"form": "row"}, {"threshold": "none"}, {"tiers": ("2/1",)}],
    "feddropout": [{"layers": "conv"}, {"keep_rates": "0.5"}, {"keep_rates": "hidden:2.0"}],
    "fjord": [{"tiers": ("0.0",)}],
    "width_reduction": [{"tiers": ("medium",)}],
    "fedumf_feddc": [{"fusion": 0.0}, {"alpha": -1.0}, {"population": None}],
}

ALGORITHMS = sorted(registry.ALGORITHMS)
LOCAL = LocalTraining(steps=5, batch_size=4, learning_rate=0.1, momentum=0.5)


def build(name, local=None, batch_norm=True, **params):
    local = local or LOCAL
    if "tiers" in registry.ALGORITHMS[name].needs:  # as many as there are clients
        params = {"tiers": registry.ALGORITHMS[name].params().tiers[:3], **params}
    return tiny.build(name, local, tiny.spec(batch_norm), **params)


shared_process = functools.cache(
    build
)  # for tests that do not ask whether a second build is the same


def test_every_algorithm_is_in_the_battery():
    assert sorted(OFF) == sorted(BAD) == ALGORITHMS


@pytest.mark.parametrize("name", ALGORITHMS)
def test_params_are_a_frozen_dataclass_with_local_training(name):
    params = registry.ALGORITHMS[name].params
    assert dataclasses.is_dataclass(params)
    assert params.__dataclass_params__.frozen
    assert isinstance(params().local, LocalTraining)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_loss_falls_and_the_states_type_is_stable(name):
    process = shared_process(name)
    stateless = isinstance(process, tff.learning.templates.LearningProcess)
    assert stateless != isinstance(process, stateful.StatefulProcess)
    assert stateless == ("population" not in registry.ALGORITHMS[name].needs)
    state, metrics = tiny.run(process, tiny.client_data(), rounds=12, tiers=3)
    losses = [float(m["train_loss"]) for m in metrics]
    assert np.mean(losses[-3:]) < 0.8 * losses[0]
    before, after = tiny.flat(process.initialize()), tiny.flat(state)
    assert [(a.shape, a.dtype) for a in before] == [(a.shape, a.dtype) for a in after]


@functools.cache
def three_rounds(name):
    return tiny.flat(tiny.run(shared_process(name), tiny.client_data(), rounds=3, tiers=3)[0])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_two_runs_are_identical(name):
    again, _ = tiny.run(build(name), tiny.client_data(), rounds=3, tiers=3)
    for a, b in zip(three_rounds(name), tiny.flat(again)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_bfloat16_is_close_to_float32_and_the_state_is_float32(name):
    process = build(name, dataclasses.replace(LOCAL, precision="bfloat16"))
    state, _ = tiny.run(process, tiny.client_data(), rounds=3, tiers=3)
    short, exact = tiny.flat(state), three_rounds(name)
    assert [a.dtype for a in short] == [a.dtype for a in exact]
    for a, b in zip(short, exact):
        np.testing.assert_allclose(a, b, atol=0.1)
    assert any(not np.array_equal(a, b) for a, b in zip(short, exact))


@pytest.mark.parametrize("name", ["fjord", "scaffold"])
def test_float16_is_closer_still(name):
    process = build(name, dataclasses.replace(LOCAL, precision="float16"))
    state, _ = tiny.run(process, tiny.client_data(), rounds=3, tiers=3)
    short, exact = tiny.flat(state), three_rounds(name)
    for a, b in zip(short, exact):
        np.testing.assert_allclose(a, b, atol=0.01)
    assert any(not np.array_equal(a, b) for a, b in zip(short, exact))


@pytest.mark.parametrize("name", [n for n in ALGORITHMS if OFF[n] is not None and n != "fedavg"])
def test_equals_fedavg_with_its_feature_off(name):
    for a, b in zip(uniform_rounds(name, **OFF[name]), uniform_rounds("fedavg")):
        np.testing.assert_array_equal(a, b)


@functools.cache
def uniform_rounds(name, **params):
    process = build(name, weighting="uniform", **params)
    state, _ = tiny.run(process, tiny.client_data(), rounds=3)
    return tiny.flat(state.global_model_weights)


@pytest.mark.parametrize(("name", "params"), [(n, p) for n, bad in BAD.items() for p in bad])
def test_bad_hyperparameters_are_refused(name, params):
    with pytest.raises(ValueError, match="Received"):
        build(name, **params)


NUMBERS = [
    (name, field.name)
    for name, algorithm in registry.ALGORITHMS.items()
    for field in dataclasses.fields(algorithm.params)
    if isinstance(field.default, float)
]


@pytest.mark.parametrize(("name", "field"), NUMBERS, ids=map(":".join, NUMBERS))
def test_numbers_that_float32_cannot_hold_are_refused(name, field):
    for value in (float("nan"), float("inf"), -float("inf"), 1e40):
        with pytest.raises(ValueError, match=f"{field} must be "):
            registry.ALGORITHMS[name].params(**{field: value})


def graphs_of(message):
    """All TensorFlow graphs of a serialized computation."""
    if isinstance(message, computation_pb2.TensorFlow):
        graph = tf.compat.v1.GraphDef()
        assert message.graph_def.Unpack(graph)
        yield graph
        return
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for inner in value if field.label == field.LABEL_REPEATED else [value]:
                yield from graphs_of(inner)


@pytest.mark.parametrize("name", registry.ALGORITHMS)
def test_iterations_of_loops_do_not_overlap(name):
    # With oneDNN, iterations that overlap in one kernel corrupt the memory.
    message = tff.framework.serialize_computation(shared_process(name).next)
    loops = [
        node
        for graph in graphs_of(message)
        for body in (graph.node, *(f.node_def for f in graph.library.function))
        for node in body
        if node.op in ("While", "StatelessWhile")
    ]
    assert {node.attr["parallel_iterations"].i for node in loops} == {1}
