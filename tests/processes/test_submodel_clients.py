"""Clients with narrower models: what they hold if the mask is on outputs only."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tests.algorithms.submodel_rounds import LOCAL, check_against_numpy
from tests.submodels.nets import NETS, as_dict, client_data
from tff_partial.core import model as model_spec

OUTPUTS = {"mask": "outputs"}


@pytest.mark.parametrize("net", ["dense", "conv"])
def test_a_mask_on_outputs_equals_numpy(net):
    check_against_numpy("feddse", net, "uniform", LOCAL, outputs_only=True, **OUTPUTS)


def test_a_mask_on_outputs_decays_what_sees_no_input_as_in_pytorch():
    local = dataclasses.replace(LOCAL, weight_decay=0.2, weight_decay_on="all", clip_norm=0.3)
    check_against_numpy("feddse", "conv", "uniform", local, outputs_only=True, **OUTPUTS)


def moved(local, **params):
    process = tiny.build("feddse", local, NETS["conv"][1], tiers=("1/2",), **params)
    rounds = tiny.Rounds(process, client_data("conv")[:1])
    before = as_dict("conv", rounds.weights())
    rounds.next()
    return {n: w - before[n] for n, w in as_dict("conv", rounds.weights()).items()}


def test_both_masks_train_the_same_small_model_if_nothing_decays():
    local = dataclasses.replace(LOCAL, weight_decay=0.0)
    outputs, both = moved(local, **OUTPUTS), moved(local)
    for name in both:
        np.testing.assert_allclose(outputs[name], both[name], atol=1e-6, err_msg=name)
    assert np.abs(both["conv2/kernel"]).max() > 1e-3
    decayed = moved(LOCAL, **OUTPUTS)
    assert np.count_nonzero(decayed["conv2/kernel"]) > np.count_nonzero(both["conv2/kernel"])


@pytest.mark.parametrize("kind", ["lstm", "transposed", "batch_norm"])
def test_a_channel_that_is_not_kept_stays_where_it_is(kind):
    layers = tf.keras.layers
    inner = {
        "lstm": [layers.LSTM(4)],
        "transposed": [layers.Conv1DTranspose(4, 2), layers.ReLU(), layers.Flatten()],
        "batch_norm": [layers.Conv1D(4, 2), layers.BatchNormalization(), layers.Flatten()],
    }[kind]
    configs = [(type(x), x.get_config()) for x in inner]

    def create():
        made = [kind.from_config(config) for kind, config in configs]
        return tf.keras.Sequential([*made, layers.Dense(3)])

    spec = model_spec.ModelSpec(create, (5, 2))
    data = [
        (np.random.default_rng(0).normal(size=(12, 5, 2)).astype(np.float32), np.arange(12) % 3)
    ]
    data = [(x, y.astype(np.int32)) for x, y in data]
    rounds = tiny.Rounds(tiny.build("feddse", LOCAL, spec, tiers=("1/2",), **OUTPUTS), data)
    before = rounds.weights()
    rounds.next()
    bias = 2 if kind == "lstm" else 1
    change = (rounds.weights()[bias] - before[bias]).reshape(-1, 4)
    np.testing.assert_array_equal(np.count_nonzero(change.any(axis=0)), 2)
    kernel = rounds.weights()[0] - before[0]
    axis = -2 if kind == "transposed" else -1
    kernel = np.moveaxis(kernel, axis, -1).reshape(-1, 4)
    np.testing.assert_array_equal(kernel.any(axis=0), change.any(axis=0))
    assert all(np.isfinite(w).all() for w in rounds.weights())
