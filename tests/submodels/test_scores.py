"""FedDSE's scores of neurons against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tests.references import submodels as reference
from tests.submodels.nets import NETS, as_dict, client_data
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
