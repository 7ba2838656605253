"""The BiLSTM, and without the first half of the words, against an LSTM in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import models
from tff_partial.core import keras_compat
from tff_partial.core import model as model_spec

EMBEDDING, UNITS = 5, 3
NAMES = [
    f"lstm_bidirectional/{direction}_lstm/lstm_cell/{name}:0"
    for direction in ("forward", "backward")
    for name in ("kernel", "recurrent_kernel", "bias")
]


def _create(length=7, dropout=0.0):
    return models.create(
        "bilstm", (length,), 2, vocabulary=50, embedding=EMBEDDING, units=UNITS, dropout=dropout
    )


def _block(length=7, dropout=0.0):
    """The block with weights that no initialiser would give, and embedded words."""
    block = _create(length, dropout).layers[1]
    rng = np.random.default_rng(0)
    block.set_weights([rng.normal(size=w.shape) for w in block.get_weights()])
    return block, tf.constant(rng.normal(size=(4, length, EMBEDDING)), tf.float32)


def _lstm(x, weights, h=None, c=None):
    """x [batch, length, embedding] -> the last h and c, in float64."""
    kernel, recurrent, bias = weights
    h = np.zeros((len(x), UNITS)) if h is None else h
    c = np.zeros((len(x), UNITS)) if c is None else c
    for word in np.moveaxis(np.asarray(x, np.float64), 1, 0):
        i, f, g, o = np.split(word @ kernel + h @ recurrent + bias, 4, axis=1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
    return h, c


def _second_half(words, h, c, weights):
    forward, backward = weights[:3], weights[3:]
    outputs = [_lstm(words, forward, h, c)[0], _lstm(words[:, ::-1], backward)[0]]
    return np.concatenate(outputs, axis=1)


@pytest.mark.parametrize("length", [1, 2, 6, 7])
@pytest.mark.parametrize("wrap", [lambda f: f, tf.function])
def test_both_halves_equal_numpy(length, wrap):
    block, x = _block(length)
    weights = [w.astype(np.float64) for w in block.get_weights()]
    recorded = wrap(block.record_first_half)(x)
    assert set(recorded) == {"words", "h", "c"}
    np.testing.assert_array_equal(recorded["words"], x[:, length // 2 :])
    h, c = _lstm(x[:, : length // 2], weights[:3])
    np.testing.assert_allclose(recorded["h"], h, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(recorded["c"], c, rtol=1e-4, atol=1e-6)
    output = wrap(block.call_second_half)(recorded, training=True)
    expected = _second_half(x.numpy()[:, length // 2 :], h, c, weights)
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-6)


def test_the_forward_direction_goes_on_where_it_stopped():
    block, x = _block()
    output = block.call_second_half(block.record_first_half(x), training=False)
    whole = block(x, training=False)
    np.testing.assert_allclose(output[:, :UNITS], whole[:, :UNITS], rtol=1e-5, atol=1e-6)
    assert not np.allclose(output[:, UNITS:], whole[:, UNITS:])


def test_from_zero_states_it_is_the_block_on_the_second_half():
    block, x = _block()
    zeros = tf.zeros((4, UNITS))
    output = block.call_second_half({"words": x[:, 3:], "h": zeros, "c": zeros}, training=False)
    np.testing.assert_allclose(output, block.layers[1](x[:, 3:]), rtol=1e-5, atol=1e-6)


def test_no_gradient_goes_through_what_is_recorded():
    block, x = _block()
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        recorded = block.record_first_half(x)
        tape.watch(recorded)
        loss = tf.reduce_sum(block.call_second_half(recorded, training=True))
        state = tf.reduce_sum(recorded["c"])
    assert tape.gradient(loss, x) is None
    assert tape.gradient(state, block.trainable_variables) == [None] * 6
    assert np.any(tape.gradient(loss, recorded)["words"] != 0)
    weights = [w.astype(np.float64) for w in block.get_weights()]
    words, h, c = (np.float64(recorded[name]) for name in ("words", "h", "c"))
    rng = np.random.default_rng(1)
    for index, gradient in enumerate(tape.gradient(loss, block.trainable_variables)):
        direction = rng.normal(size=weights[index].shape) * 1e-5
        sums = [
            _second_half(words, h, c, [*weights[:index], moved, *weights[index + 1 :]]).sum()
            for moved in (weights[index] + direction, weights[index] - direction)
        ]
        slope = np.sum(gradient * direction)
        np.testing.assert_allclose(slope, (sums[0] - sums[1]) / 2, rtol=1e-3, atol=1e-9)


def test_the_plain_call_is_kerass_bidirectional():
    block, x = _block(dropout=0.5)
    before = block(x, training=False)
    plain = tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(UNITS))
    plain.build(x.shape)
    plain.set_weights(block.get_weights())
    np.testing.assert_array_equal(before, plain(x))
    block.call_second_half(block.record_first_half(x), training=True)
    np.testing.assert_array_equal(before, block(x, training=False))
    assert [w.name for w in block.weights] == NAMES


def test_dropout_is_active_in_training_only():
    (block, x), (without, _) = _block(dropout=0.5), _block()
    recorded, expected = block.record_first_half(x), without.record_first_half(x)
    for name, value in expected.items():
        np.testing.assert_array_equal(recorded[name], value)
    exact = without.call_second_half(expected, training=True)
    np.testing.assert_array_equal(block.call_second_half(recorded, training=False), exact)
    dropped = block.call_second_half(recorded, training=True).numpy()
    kept = dropped != 0
    assert 0 < kept.sum() < kept.size
    # Without dropout of the words, what is kept would be twice the exact value.
    assert not np.any(np.isclose(dropped[kept], 2 * exact.numpy()[kept]))


def test_in_the_graphs_that_tff_traces():
    spec = model_spec.ModelSpec(_create, (7,), "int32")

    def half(model, x):
        block = model.blocks[1]
        with keras_compat.tf2_behavior():
            recorded = block.record_first_half(model.blocks[0](x))
            output = block.call_second_half(recorded, training=True)
            gradients = tf.gradients(output, block.trainable_variables)
        assert recorded["h"].shape.as_list() == [None, UNITS]
        assert recorded["c"].shape.as_list() == [None, UNITS]
        assert [w.name for w in block.weights] == NAMES
        return output, [tf.convert_to_tensor(g) for g in gradients]

    @tff.tensorflow.computation(tff.TensorType(np.int32, [None, 7]))
    def traced(x):
        return half(spec.instantiate(), x)

    x = np.arange(21, dtype=np.int32).reshape(3, 7)
    output, gradients = traced(x)
    model = spec.instantiate()
    embedded = model.blocks[0](x)
    weights = model.blocks[1].get_weights()
    h, c = _lstm(embedded[:, :3], weights[:3])
    np.testing.assert_allclose(output, _second_half(embedded[:, 3:], h, c, weights), rtol=1e-4)
    assert all(np.any(gradient != 0) for gradient in gradients)


def test_bilstm_options_and_dropout():
    model = models.create("bilstm", (8,), 2, 0.5, vocabulary=50, embedding=16, units=12)
    assert model.layers[0].embeddings.shape == (50, 8)
    assert model.layers[1].output_shape == (None, 12)
    x = np.arange(16, dtype=np.int32).reshape(2, 8)
    assert model(x).shape == (2, 1)
    embedded = model.layers[0](x)
    dropped = model.layers[1](embedded, training=True)
    assert np.any(dropped.numpy() == 0)
    assert not np.any(model.layers[1](embedded, training=False).numpy() == 0)


@pytest.mark.parametrize(
    ("option", "value"),
    [("vocabulary", 0), ("embedding", 0), ("units", -1), ("dropout", 1.0)],
)
def test_errors_of_bilstm_options(option, value):
    with pytest.raises(ValueError, match=rf"^{option} must be .* Received: {option}={value}$"):
        models.create("bilstm", (8,), 2, **{option: value})
