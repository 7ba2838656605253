"""What layers and operations say in the forward pass that is watched."""

import numpy as np
import tensorflow as tf

from tests.submodels.specs import block_spec, functional
from tff_partial.submodels.analysis import Analysis

layers = tf.keras.layers


def analysed(body, shape=(4,)):
    with tf.Graph().as_default():
        return Analysis(block_spec(functional(shape, body), shape).instantiate())


def test_a_layer_that_is_used_again_makes_the_same_channels():
    def body(x):
        again = layers.Dense(3, name="again")
        left, right = layers.Dense(5, name="left")(x), layers.Dense(5, name="right")(x)
        return layers.Concatenate()([again(left), again(right)])

    analysis = analysed(body)
    made = {layer.name: owners for layer, owners in analysis.makers}
    assert sorted(made) == ["again", "left", "logits", "right"]
    roots, _ = analysis.neurons.roots()
    assert roots[made["left"]].tolist() == roots[made["right"]].tolist()


def test_operations_in_a_layer_are_followed_to_the_next_and_to_the_output():
    class Adds(layers.Layer):
        def __init__(self):
            super().__init__()
            self.inner, self.after = layers.Dense(4), layers.ReLU()

        def call(self, x):
            return 2.0 * self.after(self.inner(x) + 1.0)

    analysis = analysed(lambda x: Adds()(x))
    (_, inner), _ = analysis.makers
    ((shape, labels),) = next(
        value for key, value in analysis.inputs.items() if value[0][1][-1] is inner
    )
    assert shape == (4,)
    assert labels[0] is None


def test_every_axis_on_which_a_shape_depends_is_listed():
    analysis = analysed(lambda x: layers.Concatenate()([layers.Dense(3)(x), layers.Dense(2)(x)]))
    lengths = {len(owners) for owners in analysis.axes()}
    assert {2, 3, 5} <= lengths
    assert analysis.classes == 3
    np.testing.assert_array_equal(analysis.logits[-1], analysis.makers[-1][1])
