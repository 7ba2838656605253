"""A part of a model, and the part that is all of it."""

import numpy as np
import tensorflow as tf

from tests import tiny
from tff_partial.core import model as model_spec
from tff_partial.core import part


def test_a_batch_is_gathered_from_a_structure():
    x, states = np.arange(6.0).reshape(3, 2), np.arange(3)
    batch = part.gather(
        {"x": tf.constant(x), "states": (tf.constant(states),)}, tf.constant([2, 0])
    )
    np.testing.assert_array_equal(batch["x"], x[[2, 0]])
    np.testing.assert_array_equal(batch["states"][0], [2, 0])


def test_everything_is_trained_on_the_changed_examples():
    spec = model_spec.ModelSpec(
        lambda: tiny.create_dense(batch_norm=True),
        (tiny.FEATURES,),
        augment=lambda x, seed: x + 1,
        preprocess=lambda x: 2 * x,
    )
    model = spec.instantiate()
    whole = part.everything(model)
    assert [v.ref() for v in whole.variables] == [v.ref() for v in model.trainable]
    assert [v.ref() for v in whole.statistics] == [v.ref() for v in model.statistics]
    record = tiny.cohort(tiny.client_data())[0].get_single_element()
    batch = whole.batch(whole.prepare(record), tf.constant([1, 3]))
    np.testing.assert_array_equal(batch, record["x"].numpy()[[1, 3]])
    expected = model.forward(2 * (batch + 1), training=True)
    np.testing.assert_allclose(whole.forward(batch), expected, rtol=1e-6)
    assert {whole.weight(v) for v in model.trainable} == {1.0}


def test_a_batch_carries_what_the_record_has():
    whole = part.everything(tiny.spec().instantiate())
    examples = tf.reshape(tf.range(6), [3, 2])
    carried = part.carrying(whole, "kept")
    inputs = carried.prepare({"x": examples, "kept": (1.0, 2.0)})
    batch, kept = carried.batch(inputs, tf.constant([2, 0]))
    np.testing.assert_array_equal(batch, [[4, 5], [0, 1]])
    assert kept == (1.0, 2.0)
    assert carried.forward is whole.forward
