"""Channel groups of models."""

import tensorflow as tf

from tests.submodels.specs import block_spec, functional, spec_of, user_spec
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
    rows, columns = channels.axes[4]
    assert rows.group.tolist() == [1] * 256
    assert rows.channel.tolist() == [*range(16)] * 16
    assert columns.group.tolist() == [2] * 512
    assert columns.channel.tolist() == [*range(512)]
    assert rows.kept([8, 5, 512]) == 16 * 5
    assert rows.first([8, 5, 512]).channel.tolist() == [*range(5)] * 16


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


def test_an_activation_may_be_used_again():
    def create():
        relu = tf.keras.layers.ReLU()
        x = tf.keras.Input((6,))
        y = relu(tf.keras.layers.Dense(4)(relu(tf.keras.layers.Dense(5)(x))))
        return tf.keras.Sequential([tf.keras.Model(x, y), tf.keras.layers.Dense(2)])

    channels = channel_groups.analyse(user_spec(create, (6,)))
    assert [group.size for group in channels.groups] == [5, 4]
    assert [{*axis.repeats} for axis in channels.scored.values()] == [{0}, {1}]


def test_a_concatenation_lists_its_groups_and_an_addition_to_it_splits_a_group():
    def body(x):
        layers = tf.keras.layers
        parts = [layers.Dense(m, name=f"fc{m}")(x) for m in (2, 4)]
        both = layers.Dense(6, "relu", name="both")(layers.Dense(3, name="fc3")(x))
        return layers.Add()([layers.Concatenate()(parts), both])

    channels = channel_groups.analyse(block_spec(functional((5,), body), (5,)))
    groups = {group.layers: group.size for group in channels.groups}
    assert {frozenset(names): size for names, size in groups.items()} == {
        frozenset({"fc2", "both"}): 2,
        frozenset({"fc4", "both"}): 4,
        frozenset({"fc3"}): 3,
    }
    rows = channels.axes[-2][0]
    of_fc2, of_fc4 = rows.group[0], rows.group[2]
    assert rows.group.tolist() == [of_fc2] * 2 + [of_fc4] * 4
    assert rows.channel.tolist() == [0, 1, 0, 1, 2, 3]


def test_heads_are_a_group_whose_activity_is_that_of_their_values():
    def body(x):
        x = tf.keras.layers.Reshape((2, 3))(x)
        return tf.keras.layers.MultiHeadAttention(4, 5, name="attention")(x, x)

    channels = channel_groups.analyse(block_spec(functional((6,), body), (6,)))
    assert [(g.size, g.layers) for g in channels.groups] == [(4, ("attention",))]
    assert [axis.repeats for axis in channels.scored.values()] == [{0: 1}]


def test_a_group_that_is_not_of_complete_layers_has_known_shapes():
    """Half of a layer's units is added to something: the halves are groups of their own."""

    def body(x):
        first, second = tf.split(tf.keras.layers.Dense(6)(x), 2, axis=-1)
        padded = tf.pad(tf.keras.layers.Dense(2)(x), [[0, 0], [1, 0]])
        return tf.concat([first + padded, second], -1)

    channels = channel_groups.analyse(block_spec(functional((4,), body), (4,)))
    assert [group.size for group in channels.groups] == [2]
    assert [axis.kept([1]) for axis in channels.axes[0][1:]] == [4]
