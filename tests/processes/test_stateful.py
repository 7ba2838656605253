"""FedUMF, FedProx, SCAFFOLD, FedDyn, FedDC and their process against a NumPy reference."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import tiny
from tests.references import stateful as reference
from tff_partial import costs, tiers
from tff_partial.algorithms import registry
from tff_partial.core import client_data, local_training
from tff_partial.core.local_training import LocalTraining
from tff_partial.experiments import client_store

# Partial participation; the second client is selected twice in a row, the third comes back.
SELECTED = [[0], [1, 2], [1], [0, 2], [2, 1]]
RATE = "0.4*0.8,3:0.2"
RATES = [0.4, 0.4 * 0.8, 0.4 * 0.64, 0.2, 0.2 * 0.8]
PARAMS = {
    "fedprox": {"mu": 0.3},
    "scaffold": {},
    "feddyn": {"alpha": 0.2},
    "feddc": {"alpha": 0.2},
    "fedumf": {"alpha": 0.7},
    "fedumf_feddc": {"fusion": 0.7, "alpha": 0.2},
}
ALL = sorted(name for name, entry in registry.ALGORITHMS.items() if "population" in entry.needs)
# Those whose clients keep their models are in test_averaging.py.
STATEFUL = [name for name in ALL if "active" not in registry.ALGORITHMS[name].needs]


PLAIN = {"momentum": 0.0, "weight_decay": 0.0, "weight_decay_on": "kernels", "clip_norm": None}
ALL_ON = {"momentum": 0.5, "weight_decay": 0.02, "weight_decay_on": "kernels", "clip_norm": 0.8}
TORCH = {**ALL_ON, "weight_decay": 0.3, "weight_decay_on": "all"}


def local(**changes):
    settings = {"epochs": 2, "batch_size": 5, "learning_rate": RATE, **ALL_ON}
    return LocalTraining(**{**settings, **changes})


def batches(record, round_num, training):
    """The indices of each local step, as the client loop draws them."""
    element = client_data.in_round(record.get_single_element(), round_num)
    order = local_training.BatchOrder(training, tf.shape(element["y"])[0], element["seed"])
    return [order.indices(step).numpy() for step in range(int(order.num_steps))]


def expected(name, initial, data, training, **params):
    cohort = tiny.cohort(data)
    rounds = [
        {
            "selected": selected,
            "learning_rate": RATES[t],
            "batches": [batches(record, t, training) for record in cohort],
        }
        for t, selected in enumerate(SELECTED)
    ]
    sgd = {name: getattr(training, name) for name in PLAIN}
    found = getattr(reference, name)(initial, data, rounds, **sgd, **params)
    return [model if isinstance(model, tuple) else (model, None) for model in found]


@pytest.mark.parametrize("sgd", [PLAIN, ALL_ON, TORCH], ids=["plain", "all on", "torch"])
@pytest.mark.parametrize("name", sorted(PARAMS))
def test_equals_numpy_with_partial_participation_and_changing_rates(name, sgd):
    data, params = tiny.client_data(), PARAMS[name]
    process = tiny.build(name, local(**sgd), weighting="uniform", **params)
    running = tiny.Rounds(process, data)
    initial = running.weights()
    wanted = expected(name, initial, data, local(**sgd), **params)
    upcoming = [*SELECTED[1:], []]
    for t, selected in enumerate(SELECTED):
        others = []
        if "population" in registry.ALGORITHMS[name].needs:
            others = process.unselected(selected, upcoming[t], range(3))
        running.next(selected, others)
        server, all_clients = wanted[t]
        for a, b in zip(running.weights(), server):
            np.testing.assert_allclose(a, b, atol=1e-5)
        if all_clients is not None:
            found = tiny.flat(process.other_models["all_clients"](running.state))
            for a, b in zip(found, all_clients):
                np.testing.assert_allclose(a, b, atol=1e-5)
    assert max(np.abs(a - b).max() for a, b in zip(running.weights(), initial)) > 0.1


@pytest.mark.parametrize("name", STATEFUL)
def test_a_round_without_uploads_leaves_server_and_model_as_they_were(name):
    """All clients of a round may be too late."""
    running = tiny.Rounds(tiny.build(name, local(), **PARAMS[name]), tiny.client_data())
    running.next([0, 1])
    before, kept = running.weights(), tf.nest.flatten(running.state.finalizer)
    running.next([], [2])
    for a, b in zip(running.weights(), before):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(tf.nest.flatten(running.state.finalizer), kept):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["fedumf", "fedumf_feddc"])
def test_training_two_cohorts_is_training_everybody_bit_for_bit(name):
    data = tiny.client_data((12, 7, 20, 9, 6, 15))
    training = local(learning_rate="0.3*0.9,4:0.1,7:0.2", clip_norm=None)
    generator = np.random.default_rng(5)
    cohorts = [generator.choice(6, 2, replace=False).tolist() for _ in range(11)]
    found = []
    for literal in (False, True):
        process = tiny.build(
            name, training, tiny.spec(batch_norm=True), literal=literal, population=6
        )
        running = tiny.Rounds(process, data)
        for now, then in zip(cohorts, cohorts[1:]):
            others = process.unselected(now, then, range(6))
            assert len(others) == (4 if literal else len(set(then) - set(now)))
            running.next(now, others)
        found.append(running)
    two, everybody = found
    for a, b in zip(two.weights(), everybody.weights()):
        np.testing.assert_array_equal(a, b)
    assert [float(m["train_loss"]) for m in two.metrics] == [
        float(m["train_loss"]) for m in everybody.metrics
    ]


def test_fedumf_tends_to_fedavg():
    """As alpha falls the distance from FedAvg falls in proportion."""
    data, distances = tiny.client_data(), []
    training = local(clip_norm=None, learning_rate=0.1)
    fedavg = tiny.Rounds(tiny.build("fedavg", training, weighting="uniform"), data)
    for now in SELECTED:
        fedavg.next(now)
    for alpha in (1.0, 1e-2, 1e-4):
        process = tiny.build("fedumf", training, alpha=alpha)
        running = tiny.Rounds(process, data)
        for now, then in zip(SELECTED, [*SELECTED[1:], []]):
            running.next(now, process.unselected(now, then, range(3)))
        pairs = zip(running.weights(), fedavg.weights())
        distances.append(max(np.abs(a - b).max() for a, b in pairs))
    assert distances[0] > 0.01
    assert distances[1] < 0.05 * distances[0]
    assert distances[2] < 1e-3 * distances[0]


def test_scaffold_with_zero_variates_is_fedavg():
    data = tiny.client_data()
    found = []
    for name in ("scaffold", "fedavg"):
        running = tiny.Rounds(tiny.build(name, local(), weighting="uniform"), data)
        running.next([0, 2])  # every variate is zero in the first round
        found.append(running.weights())
    for a, b in zip(*found):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("weighting", ["uniform", "examples"])
def test_feddyn_without_regularisation_adds_the_drift(weighting):
    """alpha = 0: clients train as in FedAvg, the server still adds the mean drift."""
    data = tiny.client_data()
    feddyn = tiny.Rounds(tiny.build("feddyn", local(), alpha=0.0, weighting=weighting), data)
    fedavg = tiny.Rounds(tiny.build("fedavg", local(), weighting=weighting), data)
    # The drift is not weighted, so that it is that of all clients together.
    uniform = tiny.Rounds(tiny.build("fedavg", local(), weighting="uniform"), data)
    initial = feddyn.weights()
    for running in (feddyn, fedavg, uniform):
        running.next([0, 2])
    for a, b, u, x in zip(feddyn.weights(), fedavg.weights(), uniform.weights(), initial):
        np.testing.assert_allclose(a, b + (u - x) * 2 / 3, atol=1e-6)


@pytest.mark.parametrize("name", STATEFUL)
def test_a_client_without_examples_changes_nothing(name):
    data = tiny.client_data()
    empty = data[0][0][:0], data[0][1][:0]
    process = tiny.build(name, local(), tiny.spec(batch_norm=True), population=4)
    weights = []
    for clients, selected in ((data, [0, 1, 2]), ([*data, empty], [0, 1, 2, 3])):
        running = tiny.Rounds(process, clients)
        for _ in range(3):
            running.next(selected)
        weights.append(running.weights())
    for a, b in zip(*weights):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(tiny.flat(running.kept(3)), tiny.flat(process.initial_client_state())):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ALL)
def test_has_what_a_learning_process_has(name):
    process = tiny.build(name, local(epochs=None, steps=3))
    state = process.initialize()
    weights = process.get_model_weights(state)
    doubled = tf.nest.map_structure(lambda w: 2 * np.asarray(w), weights)
    changed = process.set_model_weights(state, doubled)
    for a, b in zip(tiny.flat(process.get_model_weights(changed)), tiny.flat(weights)):
        np.testing.assert_array_equal(a, 2 * b)
    assert tiny.flat(changed.finalizer) or name not in ("scaffold", "feddyn", "feddc")
    hparams = process.get_hparams(state)
    assert tiny.flat(process.set_hparams(state, hparams))[0].shape == tiny.flat(weights)[0].shape
    assert process.state_type == process.initialize.type_signature.result.member
    returned = process.next.type_signature.result.client_states.member
    assert process.client_state_type.is_equivalent_to(returned)
    assert isinstance(process.initial_client_state, tff.Computation)


def test_states_are_matched_by_id_whatever_their_order():
    states = [{"client_id": np.int64(i), "value": f"of {i}"} for i in (7, 3, 5)]
    assert client_store.by_id(states) == {3: "of 3", 5: "of 5", 7: "of 7"}


def test_variates_are_counted_in_the_bytes():
    model = tiny.spec()
    plain = costs.whole(model, 5)
    for name in ("scaffold", "feddc", "fedumf_feddc"):
        entry = registry.ALGORITHMS[name]
        cost = entry.cost(model, entry.params(local=local()), tiers.create("strong"))
        assert cost.bytes_up == cost.bytes_down == 2 * plain.bytes_up
    for name in ("feddyn", "fedumf", "fedprox"):
        entry = registry.ALGORITHMS[name]
        assert entry.cost(model, entry.params(local=local()), tiers.create("strong")) == plain


@pytest.mark.parametrize("name", ["scaffold", "feddc", "fedumf_feddc", "vrl_sgd"])
def test_control_variates_do_not_grow_with_momentum(name):
    """With a displacement over K eta taken for a gradient they do, and the loss with them."""
    data = tiny.client_data((12, 7, 20))
    data = [(x, np.full_like(y, i)) for i, (x, y) in enumerate(data)]  # a class each
    local = LocalTraining(steps=10, batch_size=6, learning_rate=0.1, momentum=0.9)
    running = tiny.Rounds(tiny.build(name, local, population=3), data)
    for _ in range(25):
        running.next()
    assert float(running.metrics[-1]["train_loss"]) < np.log(3)  # that of guessing
    assert max(np.abs(w).max() for w in running.weights()) < 20
