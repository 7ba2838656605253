"""Updates in the form that TFF's aggregators take: floats only, and finite ones."""

import collections

import numpy as np
import tensorflow_federated as tff

from tff_partial.core import aggregation
from tff_partial.core.floats_only import FloatsOnly

VALUE = collections.OrderedDict(b=tff.TensorType(np.float32, [2]), a=np.int64, c=np.float32)
WEIGHT = collections.OrderedDict(b=np.float32, a=np.float32, c=np.float32)


def client(b, c, weight=1.0, a=7):
    value = collections.OrderedDict(b=np.array(b, np.float32), a=np.int64(a), c=np.float32(c))
    return value, collections.OrderedDict((name, np.float32(weight)) for name in value)


def run(clients, weight_type=WEIGHT, **options):
    inner = aggregation.ContributorMean(says_who=options.pop("says_who", False))
    factory = FloatsOnly(inner, **options)
    assert isinstance(factory, tff.aggregators.WeightedAggregationFactory)
    process = factory.create(tff.to_type(VALUE), tff.to_type(weight_type))
    values, weights = zip(*clients)
    return process.next(process.initialize(), list(values), list(weights)).result


def test_integers_are_left_out_and_have_the_mean_zero():
    result = run([client([1, 2], 4), client([3, 4], 0, weight=3.0)])
    np.testing.assert_allclose(result["b"], [2.5, 3.5])
    assert (result["a"], result["c"], list(result)) == (0, 1.0, ["b", "a", "c"])


def test_what_is_not_finite_counts_as_zero_or_not_at_all():
    clients = [client([1, 2], 4), client([np.nan, 2], 4), client([1, 2], 4, weight=np.inf)]
    np.testing.assert_allclose(run(clients)["b"], [0.5, 1.0])
    np.testing.assert_allclose(run(clients, drops=True)["b"], [1.0, 2.0])


def test_who_trained_is_said_of_all_variables():
    trained = run([client([1, 2], 4)], says_who=True)["trained"]
    assert {name: bool(flag) for name, flag in trained.items()} == {
        "b": True,
        "a": False,
        "c": True,
    }


def test_one_weight_serves_all():
    clients = [(value, weight["a"]) for value, weight in (client([1, 2], 4), client([5, 2], 0))]
    result = run(clients, np.float32, says_who=True)
    np.testing.assert_allclose(result["mean"]["b"], [3.0, 2.0])
    assert bool(result["trained"]["c"])
