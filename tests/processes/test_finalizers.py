"""Every kind of process with a server optimiser, and what nobody trained."""

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tests.core.test_server_optimizers import numpy_steps
from tff_partial.algorithms import fedavg
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.server_optimizers import ServerOptimizer
from tff_partial.processes import finalizers, learning

LOCAL = LocalTraining(steps=2, batch_size=4, learning_rate=0.1)
YOGI = ServerOptimizer("fedyogi", learning_rate=0.05)


def weights_of(state):
    return state.global_model_weights


def rounds(process, optimizer, num_rounds, tiers):
    """The weights after each round, and those that NumPy makes of the plain means."""
    server = process(server=optimizer)
    plain = process()
    state, means, start = server.initialize(), [], tiny.flat(weights_of(server.initialize()))
    for round_num in range(num_rounds):
        before = plain.initialize()._replace(client_work=np.int32(round_num))
        before = plain.set_model_weights(before, weights_of(state))
        mean = tiny.run(plain, tiny.client_data(), 1, before, tiers)[0]
        pairs = zip(tiny.flat(weights_of(mean)), tiny.flat(weights_of(state)))
        means.append([a - b for a, b in pairs])
        state, _ = tiny.run(server, tiny.client_data(), 1, state, tiers)
    return start, means, tiny.flat(weights_of(state))


@pytest.mark.parametrize("name", ["fedavgm", "fedyogi"])
def test_equals_numpy_and_statistics_are_averaged(name):
    optimizer = ServerOptimizer(name, learning_rate=0.1)

    def process(**params):
        return tiny.build("fedavg", LOCAL, tiny.spec(batch_norm=True), **params)

    start, means, found = rounds(process, optimizer, 3, tiers=1)
    names = tiny.spec(batch_norm=True).variable_names
    for i, (name, w, end) in enumerate(zip(names, start, found)):
        moved = [mean[i].astype(np.float64) for mean in means]
        steps = moved if "moving" in name else numpy_steps(optimizer, moved)
        np.testing.assert_allclose(end, w + sum(steps), atol=1e-4, err_msg=name)


def test_layers_that_nobody_trained_keep_their_weights_and_moments():
    process = tiny.build("embracing", LOCAL, tiers=("strong", "1"), server=YOGI)
    data = tiny.client_data()
    state, _ = tiny.run(process, data, 1)
    records = [record for i, record in enumerate(tiny.cohort(data, tiers=2)) if i == 1]
    for _ in range(2):
        before, state = state, process.next(state, records).state
        for name in ("m", "v"):
            first, second = before.finalizer[name], state.finalizer[name]
            assert [np.array_equal(a, b) for a, b in zip(first, second)] == [True] * 2 + [False] * 2
        pairs = list(zip(tiny.flat(weights_of(before)), tiny.flat(weights_of(state))))
        assert [np.array_equal(a, b) for a, b in pairs] == [True] * 2 + [False] * 2


def test_channels_that_nobody_held_keep_their_weights_and_moments():
    params = {"tiers": ("1", "1/2"), "scaler": False, "server": YOGI}
    process = tiny.build("heterofl", LOCAL, **params)
    data = tiny.client_data()
    state, _ = tiny.run(process, data, 1)
    small = process.next(state, [tiny.cohort(data, tiers=2)[1]]).state
    (before, after), (m, later) = (
        (tiny.flat(pick(each))[0] for each in (state, small))
        for pick in (weights_of, lambda s: s.finalizer["m"])
    )
    for old, new in ((before, after), (m, later)):
        np.testing.assert_array_equal(old[:, 2:], new[:, 2:])
        assert not np.array_equal(old[:, :2], new[:, :2])


def test_algorithms_with_client_state_take_the_same_step():
    """With all clients FedUMF is FedAvg; SCAFFOLD is in its first round."""

    def weights(name, num_rounds):
        process = tiny.build(name, LOCAL, weighting="uniform", server=YOGI)
        return tiny.flat(weights_of(tiny.run(process, tiny.client_data(), num_rounds)[0]))

    for name, num_rounds in (("fedumf", 3), ("scaffold", 1)):
        for a, b in zip(weights(name, num_rounds), weights("fedavg", num_rounds)):
            np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("name", ["feddyn", "feddc", "fedumf_feddc", "periodic_averaging"])
def test_algorithms_whose_server_does_more_say_why_they_add_the_mean(name):
    with pytest.raises(ValueError, match="server_optimizer must be sgd with learning rate 1, .* R"):
        tiny.build(name, LOCAL, server=YOGI)


def test_two_ways_of_a_server_rate_exclude_each_other():
    with pytest.raises(ValueError, match="where server_learning_rate is given as well"):
        fedavg.Params(LOCAL, server_learning_rate=0.5, server=YOGI)
    examples = {"distill": 5, "server_examples": lambda n: np.zeros([n, tiny.FEATURES])}
    with pytest.raises(ValueError, match="its Adam makes the step"):
        tiny.build("feddse", LOCAL, tiers=("1",), server=YOGI, **examples)


def test_another_aggregator_counts_zeros_as_not_trained():
    from tff_partial.core.aggregation import ContributorMean

    process = learning.build_learning_process(
        tiny.spec(), LOCAL, server=YOGI, aggregator=ContributorMean()
    )
    ours = learning.build_learning_process(tiny.spec(), LOCAL, server=YOGI)
    found, expected = (tiny.run(p, tiny.client_data(), 2)[0] for p in (process, ours))
    for a, b in zip(tiny.flat(weights_of(found)), tiny.flat(weights_of(expected))):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_variances_stay_positive_whatever_the_noise_is():
    spec = tiny.spec(batch_norm=True)
    plain = finalizers.build(spec, ServerOptimizer(), spec.weights_type)
    process = finalizers.with_positive_variances(spec, plain)
    weights = spec.instantiate().weights
    down = tf.nest.map_structure(lambda w: -5.0 * tf.ones_like(w), weights)
    found = process.next(process.initialize(), weights, down).result
    for name, before, after in zip(spec.variable_names, tiny.flat(weights), tiny.flat(found)):
        expected = np.full_like(before, 1e-3) if "variance" in name else before - 5
        np.testing.assert_allclose(after, expected, rtol=1e-6)
    without = tiny.spec()
    plain = finalizers.build(without, ServerOptimizer(), without.weights_type)
    assert finalizers.with_positive_variances(without, plain) is plain
