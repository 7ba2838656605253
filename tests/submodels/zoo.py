"""Blocks with every way in which channels go through a model: fixed ones, and random ones."""

import numpy as np
import tensorflow as tf

keras = tf.keras.layers


def conv(filters, size=1, **options):
    return keras.Conv2D(filters, size, padding="same", **options)


def concatenated(x):
    """Groups of different sizes and the input, added to a convolution of all."""
    parts = keras.Concatenate()([conv(4, 3)(x), x, conv(6)(x)])
    return keras.ReLU()(keras.Add()([conv(13)(keras.BatchNormalization()(parts)), parts]))


def dense_net(x):
    for _ in range(3):
        y = conv(4, 3, activation="relu")(keras.BatchNormalization()(x))
        x = keras.Concatenate(axis=-1)([x, y])
    return keras.LayerNormalization()(x)


def flattened_parts(x):
    """Flattened maps of different channels, one after the other."""
    left, right = keras.Flatten()(conv(4)(x)), keras.Flatten()(conv(5, 3)(x))
    return keras.Dense(6, "tanh")(keras.Concatenate()([left, right]))


def squeeze_excite(x):
    x = conv(8)(x)
    gate = keras.Reshape((1, 1, 8))(keras.GlobalAveragePooling2D()(x))
    gate = conv(8, activation="sigmoid")(conv(4, activation="relu")(gate))
    return keras.Multiply()([x, gate])


def squeeze_excite_by_operations(x):
    x = conv(8)(x)
    gate = tf.reshape(tf.reduce_mean(x, [1, 2]), (-1, 1, 1, 8))
    gate = conv(8)(tf.nn.relu(conv(4)(gate)))
    return x * tf.nn.relu6(gate + 3.0) * (1.0 / 6.0)


def grouped(x):
    x = conv(8, 3, groups=2)(conv(8)(x))
    return conv(12, 3, groups=4)(x)


def grouped_by_channel(x):
    """A group for each channel, two outputs each; and one for each channel of the image."""
    return conv(12, 3, groups=6)(conv(6)(conv(6, 3, groups=3)(x)))


def depth_multiplied(x):
    x = keras.DepthwiseConv2D(3, depth_multiplier=2, padding="same")(conv(5)(x))
    x = keras.DepthwiseConv2D(3, depth_multiplier=2, padding="same")(keras.ReLU()(x))
    return keras.SeparableConv2D(7, 2, depth_multiplier=3)(x)


def depth_multiplied_sequence(x):
    return keras.DepthwiseConv1D(2, depth_multiplier=3)(keras.Dense(4)(keras.Reshape((16, 3))(x)))


def permuted(x):
    """Channels as positions: a dense layer over positions, as in an MLP-mixer."""
    x = keras.Reshape((16, 6))(conv(6)(x))
    y = keras.Permute((2, 1))(keras.LayerNormalization()(x))
    y = keras.Dense(16)(keras.Activation("gelu")(keras.Dense(5)(y)))
    return keras.Add()([x, keras.Permute((2, 1))(y)])


def shuffled(x):
    """The channel shuffle of ShuffleNet."""
    x = keras.Reshape((4, 4, 2, 4))(conv(8, groups=1)(x))
    x = keras.Reshape((4, 4, 8))(keras.Permute((1, 2, 4, 3))(x))
    return conv(8, 3, groups=2)(x)


def dense_as_map(x):
    """A dense layer whose units become a map: those of a channel are kept together."""
    return conv(5, 2)(keras.Reshape((2, 2, 6))(keras.Dense(24, "relu")(keras.Flatten()(x))))


def sequence(x):
    return keras.Dense(6)(keras.Reshape((16, 3))(x))


def attended(x):
    x = sequence(x)
    y = keras.MultiHeadAttention(4, 3)(x, x)
    return keras.LayerNormalization()(keras.Add()([x, y]))


def attended_otherwise(x):
    """Other keys and values, other output, a mask."""
    query, value, key = sequence(x), keras.Dense(5)(keras.Reshape((16, 3))(x)), sequence(x)
    attention = keras.MultiHeadAttention(3, 2, value_dim=4, output_shape=8, use_bias=False)
    return attention(query, value, key, use_causal_mask=True)


def distributed(x):
    inner = tf.keras.Sequential([keras.Conv1D(5, 2), keras.ReLU(), keras.GlobalMaxPooling1D()])
    y = keras.TimeDistributed(keras.Dense(4, "relu"))(conv(6)(x))
    return keras.TimeDistributed(keras.BatchNormalization())(keras.TimeDistributed(inner)(y))


def recurrent(x):
    x = keras.Bidirectional(keras.LSTM(5, return_sequences=True))(sequence(x))
    return keras.GRU(4)(keras.Concatenate()([x, keras.SimpleRNN(3, return_sequences=True)(x)]))


def by_operations(x):
    x = tf.nn.relu(conv(6)(x)) * 2.0 + 1.0
    y = tf.concat([x, -tf.abs(conv(4, 3)(x)), x[:, ::-1]], axis=-1)
    first, second = tf.split(conv(8)(y), 2, axis=-1)
    z = tf.transpose(first * tf.sigmoid(second), (0, 2, 1, 3))
    return tf.squeeze(tf.reduce_max(z, [1], keepdims=True), [1])[:, 1:]


def padded_shortcut(x):
    """ResNet's shortcut without weights: channels of zeros."""
    x = conv(4)(x)
    return tf.pad(x, [[0, 0], [0, 0], [0, 0], [1, 3]]) + conv(8, 3)(x)


def softmax_over_channels(x):
    """What a softmax compares is always kept."""
    x = conv(6)(x)
    return keras.Softmax()(conv(4)(x)) * conv(4)(tf.nn.softmax(conv(5)(x)))


def attended_by_hand(x):
    x, y = sequence(x), sequence(x)
    scores = tf.matmul(keras.Dense(3, "softmax")(x), keras.Dense(3, "softmax")(y), transpose_b=True)
    return tf.matmul(tf.nn.softmax(scores), y)


def shared(x):
    """A layer that is used twice, a model that is, and both on different channels."""
    layer = conv(5, 3, name="shared")
    inner = tf.keras.Sequential([conv(4), keras.BatchNormalization()])
    left, right = layer(conv(4)(x)), layer(conv(4)(x))
    return keras.Add()([inner(left), inner(right)])


def gated(x):
    """A gate of one channel for all, and one group normalisation over everything."""
    x = keras.GroupNormalization(1)(conv(6)(x))
    return x * conv(1, activation="sigmoid")(x) + keras.GroupNormalization(-1)(x)


def lambda_layers(x):
    x = keras.Lambda(lambda t: tf.concat([t, t * 0.5], -1))(conv(4)(x))
    return keras.Lambda(tf.nn.elu)(keras.RepeatVector(3)(keras.GlobalMaxPooling2D()(x)))


FIXED = {f.__name__: f for f in [v for v in list(globals().values()) if callable(v)]}
for name in ("conv", "sequence"):
    del FIXED[name]


def random_body(seed):
    """Return a block of random layers and operations, with branches."""

    def step(x, rng):
        channels = int(rng.integers(2, 7))
        split = tf.split(conv(2 * channels)(x), 2, axis=-1)
        steps = [
            lambda: conv(channels, 3, activation="relu")(x),
            lambda: keras.Concatenate()([x, conv(channels)(x)]),
            lambda: keras.Add()([x, conv(x.shape[-1], 3)(x)]),
            lambda: tf.concat([tf.nn.relu(x), x], -1),
            lambda: keras.DepthwiseConv2D(2, padding="same", depth_multiplier=2)(x),
            lambda: conv(6, 3, groups=3)(conv(3 * channels)(x)),
            lambda: keras.BatchNormalization()(x),
            lambda: keras.LayerNormalization()(x),
            lambda: x * conv(x.shape[-1], activation="sigmoid")(conv(channels)(x)),
            lambda: split[0] * tf.tanh(split[1]),
            lambda: keras.Permute((2, 1, 3))(x) + 0.5 * x,
            lambda: keras.TimeDistributed(keras.Dense(channels, "elu"))(x),
        ]
        return steps[rng.integers(len(steps))]()

    def body(x):
        rng = np.random.default_rng(seed)
        x = conv(5)(x)
        for _ in range(6):
            x = step(x, rng)
        return x

    return body
