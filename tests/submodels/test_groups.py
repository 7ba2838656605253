"""Channel groups of models."""

import pytest
import tensorflow as tf

from tests.submodels.specs import spec_of, user_spec
from tff_partial.submodels import groups as channel_groups


def test_layers_whose_outputs_are_added_share_a_group():
    groups = channel_groups.analyse(spec_of("resnet20")).groups
    shared = [group for group in groups if len(group.layers) > 1]
    assert [len(group.layers) for group in shared] == [4, 4, 4]
    assert set(shared[1].layers) == {
        "stage2_block1_conv2",
        "stage2_block1_conv_shortcut",
        "stage2_block2_conv2",
        "stage2_block3_conv2",
    }


def test_axes_of_a_flatten_repeat_its_channels():
    channels = channel_groups.analyse(spec_of("femnist_cnn", 0.25))
    assert [(g.size, g.dense) for g in channels.groups] == [(8, False), (16, False), (512, True)]
    assert channels.axes[4] == (channel_groups.Axis(1, 16), channel_groups.Axis(2))


def test_channels_that_are_added_to_the_input_are_kept_whole():
    def create():
        x = tf.keras.Input((8, 8, 3))
        y = tf.keras.layers.Conv2D(3, 3, padding="same")(x)
        block = tf.keras.Model(x, tf.keras.layers.Add()([x, y]))
        flat = [tf.keras.layers.Flatten(), tf.keras.layers.Dense(2)]
        return tf.keras.Sequential([block, *flat])

    channels = channel_groups.analyse(user_spec(create))
    assert channels.groups == ()
    assert channels.axes[0] == (None,) * 4


def test_what_is_computed_after_the_last_layer_is_an_error():
    class Twice(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__(name="odd")
            self.dense = tf.keras.layers.Dense(2)

        def call(self, x):
            return 2.0 * self.dense(x)

    def create():
        return tf.keras.Sequential([tf.keras.layers.Dense(3), Twice()])

    with pytest.raises(ValueError, match="Received: layer='odd'.*its output"):
        channel_groups.analyse(user_spec(create, (6,)))


def test_an_activation_may_be_used_again():
    def create():
        relu = tf.keras.layers.ReLU()
        x = tf.keras.Input((6,))
        y = relu(tf.keras.layers.Dense(4)(relu(tf.keras.layers.Dense(5)(x))))
        return tf.keras.Sequential([tf.keras.Model(x, y), tf.keras.layers.Dense(2)])

    channels = channel_groups.analyse(user_spec(create, (6,)))
    assert [group.size for group in channels.groups] == [5, 4]
    scored = [channels.outputs[i].group for i in channels.scored]
    assert scored == [0, 1]


def test_operations_outside_of_layers_are_an_error_that_names_the_next_layer():
    class Adds(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.conv = tf.keras.layers.Conv2D(4, 1, name="inner")
            self.after = tf.keras.layers.ReLU(name="after")

        def call(self, x):
            return self.after(self.conv(x) + 1.0)

    def create():
        return tf.keras.Sequential([Adds(), tf.keras.layers.Flatten(), tf.keras.layers.Dense(2)])

    with pytest.raises(
        ValueError, match="Received: layer='after'.*not the output of a Keras layer"
    ):
        channel_groups.analyse(user_spec(create))
