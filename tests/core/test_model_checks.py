"""Models that would be trained otherwise than they are written are refused with the spec."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tff_partial.core import model as model_spec

layers = tf.keras.layers


class Subclassed(tf.keras.Model):
    """Layers, and what is done with them."""

    def __init__(self, apply, *inner):
        super().__init__(name="mine")
        self.inner, self._apply = list(inner), apply

    def call(self, x, training=False):
        return self._apply(self.inner, x, training)


def in_a_row(inner, x, training):
    for layer in inner:
        takes_training = isinstance(layer, (layers.BatchNormalization, layers.Dropout))
        x = layer(x, training=training) if takes_training else layer(x)
    return x


def backwards(inner, x, training):
    return in_a_row(inner[::-1], x, training)


def with_a_skip(inner, x, training):
    return inner[1](x + inner[0](x))


def with_a_skip_in_training(inner, x, training):
    return inner[1](x + inner[0](x) if training else inner[0](x))


def pooled(inner, x, training):
    return inner[1](tf.reduce_mean(inner[0](x), [1, 2]))


def with_a_variable():
    model = Subclassed(in_a_row, layers.Dense(3))
    model.scale = tf.Variable(1.0)
    return model


class SequentialWithASkip(tf.keras.Sequential):
    def call(self, inputs, training=None, mask=None):
        return super().call(inputs, training, mask) + inputs


def relu(units):
    return layers.Dense(units, activation="relu")


OTHERWISE = {
    "skip": (lambda: Subclassed(with_a_skip, relu(5), relu(3)), "in inference mode they compute"),
    # As written both give 0, whatever the first layer does.
    "skip before zeros": (
        lambda: Subclassed(with_a_skip, relu(5), layers.Dense(3, kernel_initializer="zeros")),
        "in inference mode they compute",
    ),
    "skip in training": (
        lambda: Subclassed(with_a_skip_in_training, relu(5), relu(3)),
        "in training mode they compute",
    ),
    "another order": (
        lambda: Subclassed(backwards, relu(5), layers.Dense(5)),
        "in inference mode they compute",
    ),
    "another order and shape": (
        lambda: Subclassed(backwards, relu(3), layers.Dense(4)),
        "its layers cannot be called so",
    ),
    "a variable of its own": (with_a_variable, "it has variables that belong to none"),
    "a Sequential with a call": (
        lambda: SequentialWithASkip([relu(5)], name="mine"),
        "in inference mode they compute",
    ),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_model_that_is_not_its_layers_in_a_row_is_refused(name):
    create, why = OTHERWISE[name]
    expected = re.escape("wrap it as one block, tf.keras.Sequential([model]). Received: model=")
    with pytest.raises(ValueError, match=f"{expected}'mine': {why}.*$"):
        model_spec.ModelSpec(create, (5,))


def test_other_numbers_of_logits_are_named():
    def create():
        return Subclassed(pooled, layers.Conv2D(4, 3, padding="same"), layers.Dense(10))

    with pytest.raises(ValueError, match=r"\[8, 8, 10\] values for an example instead of \[10\]$"):
        model_spec.ModelSpec(create, (8, 8, 3))


def functional_chain():
    layer = inputs = tf.keras.Input((5,))
    for create in (relu(4), layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(3)):
        layer = create(layer)
    return tf.keras.Model(inputs, layer)


def subclassed_chain():
    norm, dropout = layers.BatchNormalization(), layers.Dropout(0.5)
    return Subclassed(in_a_row, relu(4), norm, dropout, layers.Dense(3))


@pytest.mark.parametrize("create", [functional_chain, subclassed_chain])
def test_a_chain_is_accepted_with_batch_norm_and_dropout(create):
    spec = model_spec.ModelSpec(create, (5,))
    assert [tuple(t.shape) for t in spec.weights_type.trainable][-2:] == [(4, 3), (3,)]
    model = spec.instantiate()
    moving = [v.numpy() for v in model.statistics]
    assert [m.tolist() for m in moving] == [[0.0] * 4, [1.0] * 4]


@pytest.mark.parametrize("name", ["skip", "another order and shape"])
def test_the_way_out_computes_what_the_model_computes(name):
    create, _ = OTHERWISE[name]
    spec = model_spec.ModelSpec(lambda: tf.keras.Sequential([create()]), (5,))
    model = spec.instantiate()
    x = tf.random.stateless_normal((4, 5), (0, 1))
    assert len(model.blocks) == 1
    np.testing.assert_array_equal(model.forward(x, training=True), model.blocks[0](x))


def test_integer_inputs_are_within_a_small_vocabulary():
    def create():
        inputs = tf.keras.Input((6,), dtype="int32")
        embedded = layers.GlobalAveragePooling1D()(layers.Embedding(3, 4)(inputs))
        return tf.keras.Model(inputs, layers.Dense(2)(embedded))

    model_spec.ModelSpec(create, (6,), "int32")


def test_what_is_no_model_is_refused():
    with pytest.raises(ValueError, match="must return a tf.keras.Model. Received: Dense$"):
        model_spec.ModelSpec(lambda: layers.Dense(3), (5,))


def test_blocks_that_share_a_layer_are_refused():
    def create():
        shared = layers.Dense(5, name="shared")
        first, second = (tf.keras.Sequential([shared], name=name) for name in "ab")
        return tf.keras.Sequential([first, second])

    with pytest.raises(ValueError, match="must not share variables.* in blocks 'a' and 'b'$"):
        model_spec.ModelSpec(create, (5,))


def test_a_model_with_nothing_to_train_is_refused():
    def create():
        model = tf.keras.Sequential([relu(4), layers.Dense(3)], name="mine")
        model.trainable = False
        return model

    with pytest.raises(ValueError, match="variables that are trained.*'mine' with 4 frozen"):
        model_spec.ModelSpec(create, (5,))


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("shape", [{}, {"input_shape": (5,)}])
def test_a_layer_that_a_sequential_lists_twice_is_refused(shape, wrapped):
    """Without an input shape Keras leaves the second out, with one it does not."""

    def create():
        relu = tf.keras.layers.ReLU(name="relu")
        first = tf.keras.layers.Dense(4, **shape)
        rest = [tf.keras.layers.Dense(4) for _ in range(2)]
        model = tf.keras.Sequential([first, relu, rest[0], relu, rest[1]])
        return tf.keras.Sequential([model]) if wrapped else model

    with pytest.raises(ValueError, match=r"'relu' 2 times in"):
        model_spec.ModelSpec(create, (5,))


def nested(last):
    inner = tf.keras.Sequential([layers.Dense(4), last])
    return tf.keras.Sequential([layers.Flatten(), inner])


def functional(last):
    inputs = tf.keras.Input((5,))
    return tf.keras.Model(inputs, last(layers.Dense(3)(inputs)))


def applied():
    return tf.keras.applications.MobileNetV2((32, 32, 3), 0.35, weights=None, classes=4)


PROBABILITIES = {
    "dense": lambda: nested(layers.Dense(3, "softmax")),
    "layer": lambda: functional(layers.Softmax()),
    "activation": lambda: functional(layers.Activation("softmax")),
    "one": lambda: nested(layers.Dense(1, "sigmoid")),
    "wrapped": lambda: tf.keras.Sequential([functional(layers.Dense(2, "softmax"))]),
    "application": applied,
}


@pytest.mark.parametrize("create", PROBABILITIES.values(), ids=PROBABILITIES)
def test_a_model_that_ends_in_probabilities_is_refused(create):
    shape = (32, 32, 3) if create is applied else (5,)
    with pytest.raises(ValueError, match="must end in logits.* applies a (softmax|sigmoid)"):
        model_spec.ModelSpec(create, shape)


def test_a_model_may_end_in_probabilities_with_a_loss_of_its_own():
    def loss(labels, probabilities):
        return -tf.math.log(tf.gather(probabilities, labels, batch_dims=1))

    model_spec.ModelSpec(PROBABILITIES["dense"], (5,), loss=loss)


def test_a_softmax_within_a_model_is_accepted():
    model_spec.ModelSpec(lambda: nested(layers.Dense(3)), (5,))
    model_spec.ModelSpec(lambda: functional(lambda x: layers.Dense(2)(tf.nn.softmax(x))), (5,))
