"""Operations between layers: the narrow model is the full one with the other channels 0."""

import pytest
import tensorflow as tf

from tests.submodels import zoo
from tests.submodels.specs import block_spec, check_small_equals_zeroed, functional
from tff_partial.submodels import groups as channel_groups


@pytest.mark.parametrize("name", [n for n in zoo.FIXED if "operations" in n])
def test_a_step_of_the_small_model_is_that_of_the_full_one(name):
    spec = block_spec(functional((4, 4, 3), zoo.FIXED[name]))
    assert check_small_equals_zeroed(spec, seed=1, halves=False, training=True).groups


ELEMENTWISE = {
    "gelu": tf.nn.gelu,
    "silu": tf.nn.silu,
    "clip": lambda x: tf.clip_by_value(x, -0.5, 0.5),
    "where": lambda x: tf.where(x > 0.0, x, 0.1 * x),
    "power": lambda x: tf.pow(tf.abs(x) + 1.0, 0.5) - tf.maximum(x, 0.0) / 3.0,
    "add_n": lambda x: tf.add_n([x, tf.stop_gradient(x), x]),
    "stack": lambda x: tf.add(*tf.unstack(tf.stack([x, x * x], axis=1), axis=1)),
    "vector": lambda x: x * tf.constant([1.0, 2.0, 3.0, 4.0]),
    "einsum": lambda x: tf.einsum("ij,bjk->bik", tf.constant([[1.0, 2.0]]), x),
    "gather": lambda x: tf.gather(x, [1, 0], axis=1),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_operations_are_followed(name):
    def body(x):
        x = tf.keras.layers.Dense(4)(tf.keras.layers.Reshape((2, 3))(x))
        return tf.keras.layers.Dense(3)(ELEMENTWISE[name](x))

    spec = block_spec(functional((6,), body), (6,))
    # What is multiplied by a number for each channel keeps them all.
    sizes = [3] if name == "vector" else [4, 3]
    assert check_small_equals_zeroed(spec, training=True).sizes == sizes


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (lambda x: tf.reduce_sum(x, -1, keepdims=True), "all channels into one"),
        (lambda x: x[..., :2], "by their position"),
        (lambda x: tf.gather(x, [1, 0], axis=-1), "by their position"),
        (lambda x: tf.matmul(x, x, transpose_b=True), "without weights"),
        (lambda x: tf.einsum("btc,bsc->bts", x, x), "without weights"),
        (lambda x: tf.sort(x, axis=-1), "the operation"),
    ],
)
def test_what_cannot_be_followed_is_named(operation, why):
    def body(x):
        return operation(tf.keras.layers.Dense(4)(tf.keras.layers.Reshape((2, 3))(x)))

    with pytest.raises(ValueError, match=rf"(?s)Received: layer='tf\..*{why}"):
        channel_groups.analyse(block_spec(functional((6,), body), (6,)))
