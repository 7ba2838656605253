"""FedDSE's scores of neurons against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tests.references import submodels as reference
from tests.submodels.nets import NETS, as_dict, client_data
from tests.submodels.specs import block_spec, functional
from tff_partial.submodels import groups as channel_groups
from tff_partial.submodels import scores as activations


@pytest.mark.parametrize("net", ["dense", "conv"])
def test_scores_equal_numpy_in_batches_and_at_once(net):
    numpy_net, spec = NETS[net]
    channels, model = channel_groups.analyse(spec), spec.instantiate()
    x = client_data(net)[2][0]
    expected = reference.scores(numpy_net, as_dict(net, [v.numpy() for v in model.trainable]), x)
    for batch_size in (4, 100):
        score = tf.function(activations.build_scores(model, channels, 0, batch_size))
        for ours, theirs in zip(score(tf.constant(x), tf.constant([1, 2])), expected):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_inference_examples_are_a_random_part():
    _, spec = NETS["dense"]
    channels, model = channel_groups.analyse(spec), spec.instantiate()
    x = client_data("dense")[2][0]
    score = tf.function(activations.build_scores(model, channels, 3, 100))
    everything = tf.function(activations.build_scores(model, channels, 0, 100))
    few = [score(tf.constant(x), tf.constant([seed, 0]))[0].numpy() for seed in range(40)]
    whole = everything(tf.constant(x), tf.constant([0, 0]))[0].numpy()
    assert len({tuple(values) for values in few}) > 30
    error = np.std(few, axis=0).max() / np.sqrt(40)
    np.testing.assert_allclose(np.mean(few, axis=0), whole, atol=5 * error)


def test_channels_of_a_concatenation_and_heads_are_scored_each_by_itself():
    def body(x):
        layers = tf.keras.layers
        parts = [layers.Dense(3, name="a")(x), layers.Dense(2, name="b")(x)]
        both = layers.ReLU(name="relu")(layers.Concatenate()(parts))
        return layers.MultiHeadAttention(2, 4, name="attention")(both, both)

    spec = block_spec(functional((6, 5), body), (6, 5))
    channels, model = channel_groups.analyse(spec), spec.instantiate()
    x = np.random.default_rng(0).normal(size=(7, 6, 5)).astype(np.float32)
    score = activations.build_scores(model, channels, 0, 100)
    found = {
        group.layers[0]: value.numpy()
        for group, value in zip(channels.groups, score(tf.constant(x), tf.constant([1, 2])))
    }
    layers = {layer.name: layer for layer in model.blocks[0].layers}
    relu = [np.maximum(layers[name](x), 0.0) for name in ("a", "b")]
    for name, values in zip(("a", "b"), relu):
        np.testing.assert_allclose(found[name], values.mean((0, 1)), rtol=1e-5)
    attention, both = layers["attention"], tf.concat(relu, -1)
    query, key, value = (
        getattr(attention, f"_{name}_dense")(both) for name in ("query", "key", "value")
    )
    weights = tf.nn.softmax(tf.einsum("bthk,bshk->bhts", query, key) / 2.0)
    heads = np.abs(tf.einsum("bhts,bshk->bthk", weights, value)).mean((0, 1, 3))
    np.testing.assert_allclose(found["attention"], heads, rtol=1e-4)
