"""What a tier deploys, against weights that NumPy gathers and runs."""

import numpy as np
import pytest
import tensorflow as tf

from tests.references import submodels as reference
from tests.submodels.nets import NETS, as_dict, client_data
from tff_partial.algorithms import registry
from tff_partial.core.local_training import LocalTraining
from tff_partial.processes import deployment

UNITS = (3, 3)  # of 7 and 6, at a rate of 0.4


@pytest.fixture(scope="module")
def examples():
    return np.concatenate([x for x, _ in client_data("dense")])


def deployed(algo, tier, examples, seed=0):
    algorithm, (_, spec) = registry.ALGORITHMS[algo], NETS["dense"]
    params = algorithm.params(local=LocalTraining(steps=1, batch_size=2), tiers=(tier,))
    rule = algorithm.rule(spec, params)
    return deployment.create(spec, params, rule, params.tiers[0], examples, seed)


def random_weights(seed):
    rng = np.random.default_rng(seed)
    initial = NETS["dense"][1].instantiate().weights
    return tf.nest.map_structure(lambda v: rng.normal(size=v.shape).astype(np.float32), initial)


def gathered(weights, kept):
    """The small model's weights, by hand."""
    one, two = kept
    full = as_dict("dense", weights.trainable)
    return {
        "fc1/kernel": full["fc1/kernel"][:, one],
        "fc1/bias": full["fc1/bias"][one],
        "fc2/kernel": full["fc2/kernel"][one][:, two],
        "fc2/bias": full["fc2/bias"][two],
        "out/kernel": full["out/kernel"][two],
        "out/bias": full["out/bias"],
    }


def first(weights, examples):
    return [np.arange(k) for k in UNITS]


def most_active(weights, examples):
    scores = reference.scores(reference.DENSE, as_dict("dense", weights.trainable), examples)
    return [np.sort(np.argsort(-score)[:k]) for score, k in zip(scores, UNITS)]


@pytest.mark.parametrize(
    ("algo", "chosen"),
    [("heterofl", first), ("fedrolex", first), ("fjord", first), ("feddse", most_active)],
)
def test_a_tier_deploys_the_channels_that_the_rule_keeps(algo, chosen, examples):
    found = deployed(algo, "2/5", examples)
    model, kept = found.spec.instantiate(), []
    for seed in (0, 1):
        weights = random_weights(seed)
        kept.append([k.tolist() for k in chosen(weights, examples)])
        expected = gathered(weights, kept[-1])
        small = found.extract(weights)
        for name, value in as_dict("dense", small.trainable).items():
            np.testing.assert_array_equal(value, expected[name], err_msg=f"{algo}, {name}")
        model.assign(small)
        logits = reference.forward(reference.DENSE, expected, examples)["logits"]
        np.testing.assert_allclose(model.forward(examples, training=False), logits, atol=1e-4)
    assert (kept[0] != kept[1]) == (algo == "feddse")  # these two weights tell rules apart


def test_a_random_rule_keeps_the_same_channels_in_all_rounds(examples):
    found = deployed("feddropout", "2/5", examples)
    same, other = (deployed("feddropout", "2/5", examples, seed) for seed in (0, 1))
    for weights in map(random_weights, (0, 1)):
        values = [each.extract(weights).trainable[0].numpy() for each in (found, same, other)]
        columns = [np.flatnonzero(np.isin(weights.trainable[0][0], v[0])) for v in values]
        assert columns[0].tolist() == columns[1].tolist() != columns[2].tolist()


def test_the_whole_model_needs_no_copy(examples):
    assert deployed("heterofl", "1", examples) is None
    assert deployed("feddse", "memory:1", examples) is None
