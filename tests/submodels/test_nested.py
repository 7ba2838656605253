"""A width for every step: gradients of the narrower model, and zeros around them."""

import numpy as np
import pytest
import tensorflow as tf

from tests.references import submodels as reference
from tests.submodels.nets import NETS, as_dict, client_data
from tff_partial.submodels import groups, narrowing, nested

SIZES = [4, 3]


@pytest.mark.parametrize("sizes", [SIZES, [7, 6]])
def test_gradients_of_a_width_equal_numpy(sizes):
    net, spec = NETS["dense"]
    channels, widest = groups.analyse(spec), spec.instantiate()
    small = widest if sizes == [7, 6] else narrowing.create(spec, sizes).instantiate()
    part = nested.create_part(channels, widest, [(small, sizes)])
    x, y = client_data("dense")[2]
    gradients, losses, _ = part.backprop(tf.constant(x), tf.constant(y))
    weights = as_dict("dense", [v.numpy().astype(np.float64) for v in widest.trainable])
    kept = [np.arange(k) for k in sizes]
    sliced = reference.extract(weights, kept)
    np.testing.assert_allclose(np.mean(losses), reference.loss(net, sliced, x, y), rtol=1e-5)
    expected, _ = reference.restore(reference.gradients(net, sliced, x, y), kept, weights)
    for name, gradient in as_dict("dense", gradients).items():
        np.testing.assert_allclose(gradient, expected[name], atol=1e-6, err_msg=name)


def test_every_width_is_drawn_from_the_seed_of_the_step():
    _, spec = NETS["dense"]
    channels, widest = groups.analyse(spec), spec.instantiate()
    small = narrowing.create(spec, SIZES).instantiate()
    part = nested.create_part(channels, widest, [(widest, [7, 6]), (small, SIZES)])
    assert widest.is_random
    x, y = map(tf.constant, client_data("dense")[2])
    backprop, is_small = tf.function(part.backprop), []
    for step in (*range(10), *range(10)):
        widest.set_seed([step, 0])
        kernel = backprop(x, y)[0][0].numpy()
        is_small.append(not kernel[:, 4:].any())
    assert is_small[:10] == is_small[10:]
    assert 0 < sum(is_small[:10]) < 10
