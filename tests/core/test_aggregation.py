"""The mean over contributors against NumPy."""

import collections

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_partial.core import aggregation

VALUE_TYPE = tff.to_type([tff.TensorType(np.float32, [2, 3]), tff.TensorType(np.float32, [4])])


def run(weight_type, values, weights):
    process = aggregation.ContributorMean().create(VALUE_TYPE, weight_type)
    return process.next(process.initialize(), values, weights).result


def draw(seed, clients=3):
    rng = np.random.default_rng(seed)
    return [
        [rng.normal(size=(2, 3)).astype(np.float32), rng.normal(size=4).astype(np.float32)]
        for _ in range(clients)
    ]


def test_one_weight_for_the_whole_update():
    values, weights = draw(0), [1.0, 2.0, 5.0]
    result = run(tff.TensorType(np.float32), values, weights)
    for i in range(2):
        expected = sum(w * v[i] for w, v in zip(weights, values)) / 8
        np.testing.assert_allclose(result[i], expected, rtol=1e-5)


def test_a_weight_for_each_variable_and_no_contributor_gives_zero():
    values, weights = draw(1), [[1.0, 0.0], [3.0, 0.0], [0.0, 0.0]]
    result = run(tff.to_type([np.float32, np.float32]), values, weights)
    np.testing.assert_allclose(result[0], (values[0][0] + 3 * values[1][0]) / 4, rtol=1e-5)
    np.testing.assert_array_equal(result[1], np.zeros(4))


def test_a_weight_for_each_element():
    values = draw(2)
    rng = np.random.default_rng(3)
    weights = [
        [rng.integers(0, 2, v.shape).astype(np.float32) for v in client] for client in values
    ]
    weights[0][1][:] = weights[1][1][:] = weights[2][1][:] = [0, 1, 0, 1]
    result = run(VALUE_TYPE, values, weights)
    for i in range(2):
        total = sum(w[i] for w in weights)
        summed = sum(w[i] * v[i] for w, v in zip(weights, values))
        expected = np.where(total > 0, summed / np.maximum(total, 1), 0)
        np.testing.assert_allclose(result[i], expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(result[1][[0, 2]], [0, 0])


def test_inner_sums_can_be_replaced():
    clipped = tff.aggregators.clipping_factory(1e-3, tff.aggregators.SumFactory())
    factory = aggregation.ContributorMean(value_sum=clipped)
    assert isinstance(factory, tff.aggregators.WeightedAggregationFactory)
    process = factory.create(VALUE_TYPE, tff.TensorType(np.float32))
    result = process.next(process.initialize(), draw(4), [1.0, 1.0, 1.0]).result
    norm = np.sqrt(sum(float(np.sum(np.square(r))) for r in result))
    assert 0 < norm <= 1e-3


def test_a_weight_of_another_structure_is_refused():
    three = tff.to_type(collections.OrderedDict(a=np.float32, b=np.float32, c=np.float32))
    with pytest.raises(TypeError, match="3 weights for 2 variables"):
        aggregation.ContributorMean().create(VALUE_TYPE, three)


def test_tffs_debug_measurements_pass_through():
    measured = tff.learning.add_debug_measurements(tff.aggregators.SumFactory())
    factory = aggregation.ContributorMean(value_sum=measured)
    process = factory.create(VALUE_TYPE, tff.TensorType(np.float32))
    values = draw(5)
    found = process.next(process.initialize(), values, [1.0, 1.0, 1.0]).measurements[0]
    norms = [np.sqrt(sum(float(np.sum(np.square(v))) for v in client)) for client in values]
    assert found["average_client_norm"] == pytest.approx(np.mean(norms), rel=1e-5)
