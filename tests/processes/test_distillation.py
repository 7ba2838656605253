"""The server's distillation after a round."""

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tests.algorithms.submodel_rounds import LOCAL, RATES, TIERS, kept_by
from tests.references import submodels as reference
from tests.submodels.nets import NETS, as_dict, client_data
from tff_partial.core import model as model_spec


def test_distillation_moves_the_mean_towards_the_ensemble():
    data = client_data("dense")
    examples = np.random.default_rng(9).normal(size=(40, 5)).astype(np.float32)
    found = {}
    for steps in (1, 60):
        params = {"distill": 40, "distill_steps": steps, "server_examples": lambda n: examples[:n]}
        process = tiny.build("feddse", LOCAL, NETS["dense"][1], tiers=TIERS, **params)
        rounds = tiny.Rounds(process, data, tiers=3)
        rounds.next()
        found[steps] = as_dict("dense", rounds.weights())
    plain = tiny.Rounds(tiny.build("feddse", LOCAL, NETS["dense"][1], tiers=TIERS), data, tiers=3)
    before = as_dict("dense", plain.weights())
    plain.next()
    mean = as_dict("dense", plain.weights())
    clients = []
    for (x, y), record, rate in zip(data, plain.records, RATES):
        kept = kept_by("feddse", "dense", before, record, 0, rate, "ceil")
        client = {"x": x, "y": y, "kept": kept, "batches": tiny.batches(record, 0, LOCAL)}
        small = reference.extract(before, kept)
        small = reference.train(
            reference.DENSE, small, client, 0.2, 0.9, weight_decay=0.01, clip_norm=1.0, masked=True
        )
        clients.append(reference.forward(reference.DENSE, small, examples)["logits"])
    ensemble = np.mean(clients, axis=0)

    def divergence(weights):
        logits = reference.forward(reference.DENSE, weights, examples)["logits"]
        p = np.exp(reference.log_softmax(ensemble))
        return (p * (np.log(p) - reference.log_softmax(logits))).sum(1).mean()

    # Adam's first step is the rate times the sign of the gradient.
    moved = np.abs(found[1]["fc1/kernel"] - mean["fc1/kernel"])
    assert moved.max() == pytest.approx(1e-3, rel=1e-2)
    assert divergence(found[60]) < divergence(found[1]) < divergence(mean)


def test_distillation_must_have_examples():
    with pytest.raises(ValueError, match="Received: 5 wanted"):
        tiny.build("feddse", LOCAL, NETS["dense"][1], tiers=TIERS, distill=5)


def test_distillation_leaves_the_model_alone_without_contributors():
    examples = np.random.default_rng(9).normal(size=(40, 5)).astype(np.float32)
    params = {"distill": 40, "distill_steps": 5, "server_examples": lambda n: examples[:n]}
    process = tiny.build("feddse", LOCAL, NETS["dense"][1], tiers=("1/2",), **params)
    empty = [(x[:0], y[:0]) for x, y in client_data("dense")]
    rounds = tiny.Rounds(process, empty)
    before = rounds.weights()
    rounds.next()
    for a, b in zip(rounds.weights(), before):
        np.testing.assert_array_equal(a, b)


def test_distillation_of_a_model_with_one_logit():
    def create():
        return tf.keras.Sequential([tf.keras.layers.Dense(4, "relu"), tf.keras.layers.Dense(1)])

    examples = np.random.default_rng(9).normal(size=(40, tiny.FEATURES)).astype(np.float32)
    data = [(x, np.minimum(y, 1)) for x, y in tiny.client_data()]
    found = []
    for steps in (1, 40):
        params = {"distill": 40, "distill_steps": steps, "server_examples": lambda n: examples[:n]}
        spec = model_spec.ModelSpec(create, (tiny.FEATURES,))
        rounds = tiny.Rounds(tiny.build("feddse", LOCAL, spec, tiers=("1/2",), **params), data)
        rounds.next()
        found.append(rounds.weights())
    assert max(np.abs(a - b).max() for a, b in zip(*found)) > 1e-3
