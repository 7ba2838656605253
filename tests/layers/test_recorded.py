"""The multi-step forward pass before a cut."""

import numpy as np
import pytest
import tensorflow as tf

import models
from tests import tiny
from tests.algorithms.layer_rounds import create_dense, spec
from tff_partial.core import model as model_spec
from tff_partial.core.model import Cut
from tff_partial.layers import recorded as recording

SHAPES = {"bilstm": (16,), "fedpmt_fcnn": (9,), "mlp_200": (9,), "mlp_100": (9,), "softmax": (9,)}


@pytest.mark.parametrize("name", models.NAMES)
def test_the_multi_step_forward_pass_equals_the_plain_one_at_every_cut(name):
    """Each step starts from what the step before recorded, so this goes through every cut."""
    shape = SHAPES.get(name, (20, 20, 3))
    dtype = "int32" if name == "bilstm" else "float32"
    model = model_spec.ModelSpec(
        lambda: models.create(name, shape, 10, width=0.1), shape, dtype
    ).instantiate()
    rng = np.random.default_rng(0)
    for variable in model.statistics:
        variable.assign(rng.uniform(0.5, 1.5, variable.shape).astype(np.float32))
    x = rng.integers(0, 10, (7, *shape)).astype(dtype)
    recorded = plain = tf.constant(x)
    for k, block in enumerate(model.blocks):
        recorder = recording.Recorder(model, Cut(k + 1), [(k, k + 1)], 3, "moving")
        recorded = recording.in_memory(recorder, {"x": recorded, "seed": tf.constant([0, 0])})
        plain = model.forward(plain, training=False, blocks=[block])
        np.testing.assert_allclose(recorded, plain, rtol=1e-4, atol=1e-5)


def test_several_steps_are_one_forward_pass():
    model = spec().instantiate()
    x = tf.constant(tiny.client_data()[0][0])
    plain = model.forward(x, training=False, blocks=model.blocks[:3])
    for steps in ([(0, 3)], [(0, 1), (1, 3)], [(0, 1), (1, 2), (2, 3)]):
        recorder = recording.Recorder(model, Cut(3), steps, 5, "moving")
        np.testing.assert_allclose(recording.in_memory(recorder, {"x": x}), plain, atol=1e-6)


@pytest.mark.parametrize("normalization", ["batch", "static"])
def test_statistics_of_the_head(normalization):
    """`moving` uses the model's, `batch` those of equal batches; static norm has no moving ones."""
    shape = (8, 8, 2)
    model = model_spec.ModelSpec(
        lambda: models.create("four_conv_cnn", shape, 3, 0.05, normalization), shape
    ).instantiate()
    x = np.random.default_rng(0).normal(size=(7, *shape)).astype(np.float32)
    found = {
        kind: recording.in_memory(
            recording.Recorder(model, Cut(1), [(0, 1)], 3, kind), {"x": tf.constant(x)}
        ).numpy()
        for kind in recording.STATISTICS
    }
    # Seven examples in batches of at most three: 2, 2 and 3.
    pieces = [
        model.forward(x[a:b], training=True, blocks=model.blocks[:1])
        for a, b in ((0, 2), (2, 4), (4, 7))
    ]
    np.testing.assert_allclose(found["batch"], np.concatenate(pieces), atol=1e-5)
    assert np.allclose(found["moving"], found["batch"], atol=1e-5) == (normalization == "static")


def test_every_batch_is_augmented_by_itself():
    def augment(x, seed):
        return x + tf.random.stateless_uniform(tf.shape(x)[:1], seed)[:, tf.newaxis]

    model = model_spec.ModelSpec(create_dense, (tiny.FEATURES,), augment=augment).instantiate()
    recorder = recording.Recorder(model, Cut(0), [], 3, "moving")
    record = {"x": tf.zeros([9, tiny.FEATURES]), "seed": tf.constant([4, 2])}
    drawn = tf.function(lambda: recording.in_memory(recorder, record))().numpy()[:, 0]
    assert len(set(drawn)) == 9
