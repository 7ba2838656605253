"""Parts of a model: what is trained, and through which layers the gradient goes."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import models
from tests import tiny
from tests.algorithms.layer_rounds import LOCAL
from tff_partial import costs
from tff_partial.core import local_training
from tff_partial.core import model as model_spec
from tff_partial.core.model import Cut
from tff_partial.layers import parts


def graph_ops(part_fn, model):
    """How often each op stands in the body of the client's loop."""
    with tf.Graph().as_default():
        built = model.instantiate()
        train = local_training.build(built, part_fn(built), LOCAL)
        record = collections.OrderedDict(
            x=tf.TensorSpec([None, *model.input_shape], model.input_dtype),
            y=tf.TensorSpec([None], tf.int32),
            client_id=tf.TensorSpec([], tf.int64),
            tier=tf.TensorSpec([], tf.int32),
            seed=tf.TensorSpec([2], tf.int32),
        )
        weights = tf.nest.map_structure(
            lambda v: tf.TensorSpec(v.shape, v.dtype),
            tff.learning.models.ModelWeights(list(built.trainable), list(built.statistics)),
        )
        traced = tf.function(lambda w, r: train(w, r, 0.1)).get_concrete_function(weights, record)
        graph = traced.graph.as_graph_def()
    bodies = [f.node_def for f in graph.library.function]
    counts = [collections.Counter(node.op for node in body) for body in bodies]
    (loop,) = [count for count in counts if count["Conv2DBackpropFilter"]]
    return loop


def test_removed_layers_have_no_gradient_in_the_graph():
    model = model_spec.ModelSpec(
        lambda: models.create("resnet20", (8, 8, 3), 10), (8, 8, 3), "float32"
    )
    ops = {}
    for blocks in (0, 7):
        cut = Cut(blocks)
        part_fn = functools.partial(
            parts.recorded, cut=cut, steps=costs.forward_steps(model, cut, 5), batch_size=5
        )
        ops["recorded", blocks] = graph_ops(part_fn, model)
        ops["stopped", blocks] = graph_ops(functools.partial(parts.stopped, cut=cut), model)
    # Stem, 18 convolutions in blocks and 3 on shortcuts; 7 of them after the cut.
    for kind in ("recorded", "stopped"):
        for op in ("Conv2DBackpropFilter", "Conv2DBackpropInput"):
            assert (ops[kind, 0][op], ops[kind, 7][op]) == (22, 7)
    assert [ops[key]["Conv2D"] for key in (("recorded", 7), ("stopped", 7))] == [7, 22]
    # Variables of the removed layers are none of the loop's.
    reads = [ops["recorded", blocks]["ReadVariableOp"] for blocks in (0, 7)]
    assert reads[1] < reads[0] / 2


def trains(part):
    """Names of the variables that it trains, and of the statistics that it moves."""
    return [v.name.split(":")[0] for v in (*part.variables, *part.statistics)]


@pytest.mark.parametrize(
    ("create", "expected"),
    [
        (lambda model: parts.stopped(model, Cut(0)), (0, 1, 2, 3, 4, 5, 6, 7)),
        (lambda model: parts.stopped(model, Cut(1)), (2, 3, 4, 5, 6, 7)),
        (lambda model: parts.stopped(model, Cut(2)), (4, 5)),
        (lambda model: parts.recorded(model, Cut(1), [(0, 1)], 4), (2, 3, 4, 5, 6, 7)),
        (lambda model: parts.leading(model, 1), (0, 1, 2, 3, 6, 7)),
        (lambda model: parts.leading(model, 2), (0, 1)),
    ],
)
def test_the_blocks_of_a_part(create, expected):
    model = tiny.spec(batch_norm=True).instantiate()
    names = [v.name.split(":")[0] for v in (*model.trainable, *model.statistics)]
    part = create(model)
    assert trains(part) == [names[i] for i in expected]


def test_parts_compute_the_logits_of_the_model():
    model = tiny.spec().instantiate()
    x = tf.constant(tiny.client_data()[0][0])
    plain, record = model.forward(x, training=True), {"x": x}
    for part in (
        parts.stopped(model, Cut(1)),
        parts.leading(model, 1),
        parts.recorded(model, Cut(1), [(0, 1)], batch_size=5),
    ):
        inputs = part.batch(part.prepare(record), tf.range(len(x)))
        np.testing.assert_allclose(part.forward(inputs), plain, atol=1e-6)


def test_back_propagation_ends_at_the_group_that_is_trained():
    model = model_spec.ModelSpec(
        lambda: models.create("resnet20", (8, 8, 3), 10), (8, 8, 3), "float32"
    )
    groups = parts.groups(model)
    assert len(groups) == 11  # stem, residual blocks, dense layer
    assert [stop for _, stop in groups[:-1]] == [start for start, _ in groups[1:]]
    ops = graph_ops(functools.partial(parts.between, start=groups[8][0], stop=groups[8][1]), model)
    # Through two of nine residual blocks: the group and the one after it.
    assert (ops["Conv2DBackpropFilter"], ops["Conv2DBackpropInput"]) == (4, 4)
