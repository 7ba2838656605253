"""Wide residual networks."""

from __future__ import annotations

import tensorflow as tf

import models
from tests.models.small import create_small


def test_variables_have_the_same_names_inside_a_graph():
    with tf.Graph().as_default():
        names = [w.name for w in create_small("wide_resnet16_8").weights]
    assert names == [w.name for w in create_small("wide_resnet16_8").weights]


def test_sixteen_layers_in_three_stages_of_eightfold_width():
    model = models.create("wide_resnet16_8", (32, 32, 3), 10, 0.25)
    stages = [block for block in model.layers if block.name.startswith("stage")]
    assert [block.name for block in stages] == [
        f"stage{s}_block{b}" for s in (1, 2, 3) for b in (1, 2)
    ]
    assert [block.output_shape[1:] for block in stages[1::2]] == [
        (32, 32, 32),
        (16, 16, 64),
        (8, 8, 128),
    ]
    convolutions = [w for w in model.trainable_weights if len(w.shape) == 4]
    # One in the stem, two in each block, and a shortcut in the first block of each stage.
    assert len(convolutions) == 1 + 2 * 6 + 3
