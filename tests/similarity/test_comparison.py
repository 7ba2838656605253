"""Clients' models compared block by block."""

import numpy as np
import pytest
import tensorflow as tf

import models
from tests import tiny
from tests.similarity.test_schemes import spec
from tff_partial.core import model as model_spec
from tff_partial.similarity import comparison as representations
from tff_partial.similarity import schemes, svcca

BLOCKS = ["first", "norm", "third", "classifier"]


def batches(count=2, examples=30):
    x = np.random.default_rng(0).normal(size=(100, tiny.FEATURES)).astype(np.float32)
    return representations.draw_batches(x, count, examples, seed=0)


def values(clients=3, seed=1):
    """Models that differ, as clients keep them: each parameter, each statistic at random."""
    rng = np.random.default_rng(seed)
    drawn = [(rng.normal(size=91), rng.uniform(0.1, 2, 12)) for _ in range(clients)]
    return [
        {"parameters": p.astype(np.float32), "statistics": s.astype(np.float32)} for p, s in drawn
    ]


def comparison(scheme="none", **options):
    shared = schemes.shares(spec(), scheme).statistics
    return representations.Comparison(spec(), batches(), shared, **options)


def outputs(value, x):
    """The blocks' outputs, in NumPy."""
    ends = np.cumsum([30, 6, 6, 6, 24, 4, 12, 3])
    w1, b1, gamma, beta, w2, b2, w3, b3 = np.split(value["parameters"], ends[:-1])
    mean, variance = np.split(value["statistics"], 2)
    first = x @ w1.reshape(5, 6) + b1
    norm = np.maximum(gamma * (first - mean) / np.sqrt(variance + 1e-3) + beta, 0)
    third = np.maximum(norm @ w2.reshape(6, 4) + b2, 0)
    return [first, norm, third, third @ w3.reshape(4, 3) + b3]


def similarity(a, b):
    return svcca.pairwise([svcca.directions(a), svcca.directions(b)])[0, 1]


def wanted(found):
    """[blocks, clients, clients]: the mean over the batches, pair by pair."""
    every = [[outputs(value, x) for x in batches()] for value in found]
    pair = [
        [[np.mean([similarity(p[k], q[k]) for p, q in zip(a, b)]) for b in every] for a in every]
        for k in range(len(BLOCKS))
    ]
    return np.array(pair)


def test_equals_numpy():
    models = values()
    compared = comparison()
    assert compared.blocks == BLOCKS
    np.testing.assert_allclose(compared.pairs(models), wanted(models), atol=1e-5)


def test_columns_are_of_the_pairs():
    models = values()
    found, matrices = comparison().columns(models), wanted(models)
    assert found.pop("svcca_clients") == 3
    for name, matrix in zip(BLOCKS, matrices):
        pairs = matrix[[0, 0, 1], [1, 2, 2]]
        assert found.pop(f"svcca_max_{name}") == pytest.approx(pairs.max(), abs=1e-5)
        assert found.pop(f"svcca_mean_{name}") == pytest.approx(pairs.mean(), abs=1e-5)
    assert not found


def test_statistics_of_synchronised_layers_are_averaged():
    """Clients whose first half is the same see the same there, whatever their statistics."""
    models = values()
    for model in models[1:]:
        model["parameters"][:48] = models[0]["parameters"][:48]
    apart = comparison("none").columns(models)
    assert apart["svcca_max_first"] == pytest.approx(1, abs=1e-6)
    assert apart["svcca_max_norm"] < 0.99
    together = comparison("first_half").columns(models)
    assert together["svcca_mean_norm"] == pytest.approx(1, abs=1e-6)
    assert together["svcca_max_third"] < 0.99


def test_models_that_diverged_are_left_out():
    models = values(4)
    models[1]["parameters"][-1] = np.nan
    found = comparison().columns(models)
    without = comparison().columns([models[0], *models[2:]])
    assert found == without
    assert found["svcca_clients"] == 3
    alone = comparison().columns(models[:2])
    assert alone["svcca_clients"] == 1
    assert np.isnan(alone["svcca_max_first"])
    nobody = comparison().columns(models[1:2])
    assert nobody["svcca_clients"] == 0


def test_moving_averages_can_be_averaged_at_the_end():
    """What `representations` says of statistics: once at the end is as good as every round."""
    rng = np.random.default_rng(2)
    layer = tf.keras.layers.BatchNormalization(momentum=0.9)
    layer.build([None, 3])
    every_round = np.tile(np.concatenate([layer.moving_mean, layer.moving_variance]), (4, 1))
    at_the_end = every_round.copy()
    for _ in range(5):
        x = rng.normal(size=(4, 20, 3)).astype(np.float32) * rng.uniform(0.5, 2, (4, 1, 3))
        for kept in (every_round, at_the_end):
            for client, batch in zip(kept, x):
                layer.moving_mean.assign(client[:3])
                layer.moving_variance.assign(client[3:])
                layer(batch, training=True)
                client[:] = np.concatenate([layer.moving_mean, layer.moving_variance])
        every_round[:] = every_round.mean(axis=0)
    np.testing.assert_allclose(at_the_end.mean(axis=0), every_round[0], rtol=1e-5)
    assert np.ptp(at_the_end, axis=0).min() > 1e-3


def test_batches_are_different_examples_and_follow_the_seed():
    x = np.arange(40).reshape(20, 2)
    first = representations.draw_batches(x, 3, 6, seed=1)
    assert [b.shape for b in first] == [(6, 2)] * 3
    assert len({tuple(row) for batch in first for row in batch}) == 18
    assert np.array_equal(first, representations.draw_batches(x, 3, 6, seed=1))
    assert not np.array_equal(first, representations.draw_batches(x, 3, 6, seed=2))


@pytest.mark.parametrize(("count", "examples"), [(3, 7), (0, 5), (1, 21)])
def test_too_few_held_out_examples(count, examples):
    with pytest.raises(ValueError, match=rf"from 1 to 20.*Received: batches={count}, "):
        representations.draw_batches(np.zeros((20, 2)), count, examples, seed=0)


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "classes"),
    [
        ("resnet20", (8, 8, 3), "float32", 10),
        ("femnist_cnn", (8, 8, 1), "float32", 62),
        ("bilstm", (6,), "int32", 2),
    ],
)
def test_models_of_the_paper(name, shape, dtype, classes):
    """Two clients whose first halves agree are alike there, and only there."""
    model = model_spec.ModelSpec(lambda: models.create(name, shape, classes, 0.25), shape, dtype)
    rng = np.random.default_rng(3)
    shares = schemes.shares(model, "first_half")
    built = model.instantiate()
    ours = [v.numpy() for v in built.trainable]
    theirs = [w if s else w + rng.normal(size=w.shape) for w, s in zip(ours, shares.trainable)]
    statistics = np.concatenate([np.zeros(0), *(v.numpy().ravel() for v in built.statistics)])
    kept = [
        {
            "parameters": np.concatenate([np.ravel(w) for w in weights]).astype(np.float32),
            "statistics": (statistics * factor).astype(np.float32),
        }
        for weights, factor in ((ours, 1), (theirs, 3))
    ]
    x = rng.integers(0, 50, (40, *shape)).astype(dtype)
    compared = representations.Comparison(model, [x], shares.statistics)
    found = [compared.columns(kept)[f"svcca_max_{block}"] for block in compared.blocks]
    half = len(found) // 2
    np.testing.assert_allclose(found[:half], 1, atol=1e-5)
    assert max(found[half:]) < 1 - 1e-4


def test_clients_without_examples_cannot_be_compared():
    with pytest.raises(ValueError, match=r"Received: 1 of 3 clients without"):
        representations.check_clients([0, 1, 2])
