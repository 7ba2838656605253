"""The channels of each variable that a client shares."""

import tensorflow as tf

from tff_partial.core import model as model_spec
from tff_partial.layers import channel_masks


def nested_head():
    """The last layer has no bias; the block around it holds another, and nothing follows."""
    layers = tf.keras.layers
    inner = tf.keras.Sequential([layers.Dense(2, use_bias=False, name="last")])
    head = tf.keras.Sequential([layers.Dense(4, name="hidden"), inner])
    return tf.keras.Sequential([layers.Dense(6, name="first"), head, layers.Activation("tanh")])


def test_the_last_layer_is_shared_whole_wherever_it_stands():
    model = model_spec.ModelSpec(nested_head, (3,)).instantiate()
    masks = channel_masks.masks(model, 0.5)
    found = {v.name.split(":")[0]: masks[id(v)].tolist() for v in model.trainable}
    assert found == {
        "first/kernel": [1, 1, 1, 0, 0, 0],
        "first/bias": [1, 1, 1, 0, 0, 0],
        "hidden/kernel": [1, 1, 0, 0],
        "hidden/bias": [1, 1, 0, 0],
        "last/kernel": [1, 1],
    }


def test_channels_of_recurrent_cells_and_shares_that_are_not_exact():
    layers = [tf.keras.layers.LSTM(3, return_sequences=True), tf.keras.layers.GRU(3)]
    layers += [tf.keras.layers.Dense(100), tf.keras.layers.Dense(2)]
    model = model_spec.ModelSpec(lambda: tf.keras.Sequential(layers), (4, 2)).instantiate()
    masks = [channel_masks.masks(model, 0.55)[id(v)].tolist() for v in model.trainable]
    assert masks[:3] == [[1, 1, 0] * 4] * 3
    assert masks[3:6] == [[1, 1, 0] * 3] * 3
    assert [sum(mask) for mask in masks[6:]] == [55, 55, 2, 2]
