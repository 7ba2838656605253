"""A battery over all algorithms: each works with robust and private aggregation, or refuses it.

What clients do is traced once for an algorithm and kept for its other processes.
"""

import dataclasses
import functools
import inspect

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import tiny
from tests.core.test_tracing import Store
from tff_partial.algorithms import registry
from tff_partial.core import aggregators, tracing
from tff_partial.core.aggregators import Aggregator, Robust, Secure
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.private_aggregation import Private

ALGORITHMS = sorted(registry.ALGORITHMS)
LOCAL = LocalTraining(steps=2, batch_size=4, learning_rate=0.3)
CLIP = 0.05
# A client with so many examples sends something else than its update.
HUNDREDFOLD, NOT_A_NUMBER = 31, 32
# With two tiers and batch norm; others do without, as each tier and layer has to be traced.
TIERED = ("embracing", "fedrolex")
STORES = {name: Store() for name in ALGORITHMS}


def works(name):
    return [algo for algo in ALGORITHMS if name not in registry.ALGORITHMS[algo].refused]


def test_every_algorithm_takes_an_aggregator():
    for algo in ALGORITHMS:
        assert "aggregator" in inspect.signature(registry.ALGORITHMS[algo].build).parameters, algo


def num_tiers(algo):
    return 2 if algo in TIERED else 1


def build(algo, aggregator, **params):
    algorithm = registry.ALGORITHMS[algo]
    if "tiers" in algorithm.needs:
        tiers = ("1", "1/2") if algorithm.tiers_are_rates else ("strong", "1")
        params["tiers"] = tiers[: num_tiers(algo)]
    if "population" in algorithm.needs:
        params["population"] = 10
    if "examples" in tiny.params_of(algorithm):
        params["examples"] = 0
    with tracing.kept_in(STORES[algo] if params.get("weighting") == "uniform" else None):
        return algorithm.build(
            tiny.spec(batch_norm=algo in TIERED),
            algorithm.params(local=LOCAL, **params),
            aggregator,
        )


def change(process, data, tiers=1):
    """What a round with these clients makes of each initial weight."""
    rounds = tiny.Rounds(process, data, tiers)
    before = rounds.weights()
    rounds.next()
    return [after - b for after, b in zip(rounds.weights(), before)]


def norm(arrays):
    return np.sqrt(sum(float(np.sum(np.square(a))) for a in arrays))


@dataclasses.dataclass(frozen=True)
class Attacked(Aggregator):
    """Lets clients with certain numbers of examples send something else."""

    inner: Aggregator = aggregators.MEAN

    @property
    def NAME(self):
        return self.inner.NAME

    def mean(self, says_who=False, held=None):
        factory = self.inner.mean(says_who, held)

        class Factory:
            def create(self, value_type, weight_type):
                process = factory.create(value_type, weight_type)

                @tff.tensorflow.computation(value_type, weight_type)
                def attack(value, weight):
                    examples = tf.reduce_max([tf.reduce_max(w) for w in tf.nest.flatten(weight)])
                    factor = tf.where(tf.equal(examples, HUNDREDFOLD), 100.0, 1.0)
                    factor = tf.where(tf.equal(examples, NOT_A_NUMBER), np.nan, factor)
                    return tf.nest.map_structure(lambda v: factor * v, value)

                @tff.federated_computation(*process.next.type_signature.parameter)
                def next_fn(state, value, weight):
                    return process.next(state, tff.federated_map(attack, (value, weight)), weight)

                return tff.templates.AggregationProcess(process.initialize, next_fn)

        return Factory()


@pytest.mark.parametrize("algo", works("robust"))
def test_one_client_of_ten_moves_the_model_by_no_more_than_the_clip(algo):
    process = build(algo, Attacked(inner=Robust(clip=CLIP)), weighting="examples")
    honest = tiny.client_data(sizes=range(5, 14))
    without = change(process, honest, num_tiers(algo))
    assert norm(without) > 0
    for examples in (HUNDREDFOLD, NOT_A_NUMBER):
        attacker = tiny.client_data(sizes=[examples], seed=1)
        found = change(process, [*honest, *attacker], num_tiers(algo))
        assert norm(a - b for a, b in zip(found, without)) <= CLIP


def test_without_clipping_that_client_decides():
    process = build("fedavg", Attacked(), weighting="examples")
    honest = tiny.client_data(sizes=range(5, 14))
    attacker = tiny.client_data(sizes=[HUNDREDFOLD], seed=1)
    found = change(process, [*honest, *attacker])
    assert norm(a - b for a, b in zip(found, change(process, honest))) > 100 * CLIP


TWO = tiny.client_data(sizes=(8, 9))


@functools.cache
def mean_of(algo):
    return change(build(algo, None, weighting="uniform"), TWO, num_tiers(algo))


@functools.cache
def private(algo):
    """Without noise and clipping; as many clients are expected of each tier as there are."""
    contributors = (2 / num_tiers(algo),) * num_tiers(algo)
    return build(algo, Private(0.0, contributors, clip=1e3), weighting="uniform")


@pytest.mark.parametrize("algo", works("dp"))
def test_private_works(algo):
    found = change(private(algo), TWO, num_tiers(algo))
    assert 0 < norm(found) < np.inf


@pytest.mark.parametrize("algo", ["fedavg", *TIERED])
def test_without_noise_private_is_the_mean(algo):
    for a, b in zip(change(private(algo), TWO, num_tiers(algo)), mean_of(algo)):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_of_private_training_the_server_learns_the_model_only():
    rounds = tiny.Rounds(private("fedavg"), TWO)
    rounds.next()
    assert rounds.metrics == [{}]


@pytest.mark.parametrize("algo", ["embracing", "fednova", "scaffold"])
def test_secure_is_the_mean_and_nothing_else_reaches_the_server(algo):
    process = build(algo, Secure(bound=16.0), weighting="uniform")
    for a, b in zip(change(process, TWO, num_tiers(algo)), mean_of(algo)):
        np.testing.assert_allclose(a, b, atol=1e-5)
    tff.test.assert_not_contains_unsecure_aggregation(process.next)


REFUSED = [(a, n) for a in ALGORITHMS for n in aggregators.NAMES if a not in works(n)]


@pytest.mark.parametrize(("algo", "name"), REFUSED)
def test_what_cannot_be_combined_is_refused_with_the_reason(algo, name):
    one = {"robust": Robust(), "secure": Secure(), "dp": Private(1.0, (1.0, 1.0))}[name]
    algorithm = registry.ALGORITHMS[algo]
    params = {"server_examples": tiny.server_examples} if algo == "feddf" else {}
    params |= {"population": 3} if "population" in algorithm.needs else {}
    params |= {"weighting": "uniform"}
    with pytest.raises(ValueError, match=algorithm.refused[name]):
        algorithm.build(tiny.spec(), algorithm.params(local=LOCAL, **params), one)
