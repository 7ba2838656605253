"""Functional models are cut where everything passes, and are the same in blocks."""

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tff_partial import costs
from tff_partial.core import keras_compat, layer_graph
from tff_partial.core import model as model_spec
from tff_partial.core.local_training import LocalTraining
from tff_partial.submodels import groups

layers = tf.keras.layers


def functional(shape, apply, dtype="float32"):
    """Return a builder of the functional model that `apply` describes."""

    def create():
        inputs = tf.keras.Input(shape, dtype=dtype)
        return tf.keras.Model(inputs, apply(inputs), name="mine")

    return create


def dense(units, name, **options):
    return layers.Dense(units, activation="relu", name=name, **options)


def chain(x):
    x = dense(4, "first")(x)
    x = layers.Dropout(0.5, name="dropout")(layers.BatchNormalization(name="norm")(x))
    return layers.Dense(3, name="last")(x)


def residual(x):
    x = dense(4, "stem")(x)
    y = layers.BatchNormalization(name="res_norm")(dense(4, "res_dense")(x))
    return layers.Dense(3, name="head")(tf.nn.relu(x + y))


def concatenated(x):
    x = dense(6, "stem")(x)
    branches = [dense(2, "left")(dense(3, "far_left")(x)), dense(2, "right")(x), x]
    return layers.Dense(3, name="head")(layers.Concatenate(name="joined")(branches))


def squeeze_and_excite(x):
    x = layers.Conv2D(4, 3, name="stem")(x)
    y = layers.GlobalAveragePooling2D(keepdims=True, name="se_pool")(x)
    y = layers.Conv2D(4, 1, activation="sigmoid", name="se_expand")(y)
    x = layers.Multiply(name="se_excite")([x, y])
    return layers.Dense(3, name="head")(tf.reduce_mean(x, [1, 2]))


def attention(x):
    x = layers.Dense(4, name="embed")(x)
    x = x + layers.MultiHeadAttention(2, 2, name="attend")(x, x)
    x = layers.LayerNormalization(name="norm")(x)
    return layers.Dense(3, name="head")(x[:, 0])


def nested(x):
    inner = functional((4,), lambda x: layers.Add()([x, dense(4, "inner")(x)]))()
    return layers.Dense(3, name="head")(inner(dense(4, "stem")(x)))


def used_twice_in_a_block(x):
    shared = dense(4, "shared")
    x = dense(4, "stem")(x)
    return layers.Dense(3, name="head")(shared(shared(x)))


def used_far_apart(x):
    shared = dense(4, "shared")
    x = dense(4, "between")(shared(dense(4, "stem")(x)))
    return layers.Dense(3, name="head")(dense(4, "after")(shared(x)))


def one_activation_for_all(x):
    relu = layers.ReLU(name="relu")
    x = relu(layers.Dense(4, name="first")(x))
    return layers.Dense(3, name="head")(relu(layers.Dense(4, name="second")(x)))


def with_fixed_statistics(x):
    x = layers.BatchNormalization(name="norm")(dense(4, "stem")(x), training=False)
    return layers.Dense(3, name="head")(x)


def several_outputs(x):
    sequence, state, _ = layers.LSTM(3, return_sequences=True, return_state=True, name="lstm")(x)
    parts = tf.split(dense(4, "wide")(state), 2, axis=-1)
    return layers.Dense(3, name="head")(parts[0] * parts[1] + tf.reduce_mean(sequence))


def masked(x):
    x = layers.Embedding(2, 3, mask_zero=True, name="embedding")(x)
    return layers.Dense(3, name="head")(layers.LSTM(4, name="lstm")(x))


NETS = {
    "chain": (chain, (5,), ["first", "norm", "dropout", "last"]),
    "residual": (residual, (5,), ["stem", "res", "relu", "head"]),
    "concatenated": (concatenated, (5,), ["stem", "joined", "head"]),
    "squeeze and excite": (
        squeeze_and_excite,
        (6, 6, 2),
        ["stem", "se", "reduce_mean", "head"],
    ),
    "attention": (attention, (3, 2), ["embed", "attend", "norm", "getitem", "head"]),
    "nested": (nested, (5,), ["stem", "mine", "head"]),
    "used twice in a block": (used_twice_in_a_block, (5,), ["stem", "shared", "head"]),
    "used far apart": (used_far_apart, (5,), ["stem", "shared", "after", "head"]),
    "one activation": (one_activation_for_all, (5,), ["first", "relu", "second", "relu_1", "head"]),
    "fixed statistics": (with_fixed_statistics, (5,), ["stem", "norm", "head"]),
    "several outputs": (several_outputs, (4, 2), ["add", "head"]),
    "masked": (masked, (4,), ["lstm", "head"]),
}
LOCAL = LocalTraining(steps=2, batch_size=4, learning_rate=0.1, momentum=0.5)


def builder(name):
    apply, shape, _ = NETS[name]
    return functional(shape, apply, "int32" if name == "masked" else "float32")


def examples(name, count=8):
    rng, shape = np.random.default_rng(0), (count, *NETS[name][1])
    if name == "masked":
        return rng.integers(0, 2, shape).astype(np.int32)
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("name", NETS)
def test_the_blocks_in_a_row_are_the_model(name):
    model = builder(name)()
    blocks = layer_graph.blocks(model)
    for training in (False, True):
        expected = model(examples(name), training=training)
        x = tf.constant(examples(name))
        for block in blocks:
            x = keras_compat.call(block, x, training)
        if name != "chain" or not training:  # dropout draws anew
            np.testing.assert_allclose(x, expected, rtol=1e-5, atol=1e-6)
    assert {id(v) for b in blocks for v in b.variables} == {id(v) for v in model.variables}


@pytest.mark.parametrize("name", NETS)
def test_blocks_have_good_names_in_every_graph(name):
    dtype = "int32" if name == "masked" else "float32"
    spec = model_spec.ModelSpec(builder(name), NETS[name][1], dtype)
    for precision in ("float32", "bfloat16"):
        model = spec.instantiate(precision)
        assert [block.name for block in model.blocks] == NETS[name][2]
        logits = model.forward(tf.constant(examples(name)), training=True)
        assert (logits.shape, logits.dtype) == ((8, 3), tf.float32)
    assert [block.name for block in costs.measure(spec)] == NETS[name][2]
    assert len({*spec.variable_names}) == len(spec.variable_names)


def tensors_on_all_paths(model):
    """By definition: what is in every path from the input to the output."""

    def paths(tensor):
        node = tensor.node
        if node.is_input:
            return [[id(tensor)]]
        return [[*p, id(tensor)] for t in node.keras_inputs for p in paths(t)]

    first, *others = paths(model.output)
    return [t for t in first if all(t in path for path in others)]


# In the others a layer or a mask keeps some blocks together.
@pytest.mark.parametrize("name", [*NETS][:6])
def test_a_model_is_cut_at_every_tensor_through_which_all_passes(name):
    model = builder(name)()
    segments = layer_graph.segments(model)
    cuts = [id(segments[0].input), *(id(segment.output) for segment in segments)]
    assert cuts == tensors_on_all_paths(model)


def test_a_functional_chain_has_the_layers_of_the_sequential_as_blocks():
    model = builder("chain")()
    assert [id(b) for b in layer_graph.blocks(model)] == [id(x) for x in model.layers[1:]]


def test_the_call_with_training_false_moves_no_statistics():
    spec = model_spec.ModelSpec(builder("fixed statistics"), (5,))
    model = spec.instantiate()
    model.forward(tf.constant(examples("fixed statistics")), training=True)
    assert [v.numpy().tolist() for v in model.statistics] == [[0.0] * 4, [1.0] * 4]
    assert len(model.trainable) == 6


@pytest.mark.parametrize("algo", ["embracing", "partial_averaging"])
def test_training_in_blocks_is_training_of_the_model(algo):
    """Beside a model that the test cuts by hand."""

    def by_hand():
        stem = dense(4, "stem")
        stem.build((None, 5))  # initial values follow the order in which layers are built
        inputs = tf.keras.Input((4,))
        y = layers.BatchNormalization(name="res_norm")(dense(4, "res_dense")(inputs))
        block = tf.keras.Model(inputs, layers.Add()([inputs, y]), name="res")
        relu = layers.ReLU(name="relu")
        return tf.keras.Sequential([stem, block, relu, layers.Dense(3, name="head")])

    params = {"tiers": ("strong", "1", "2")} if algo == "embracing" else {}
    found = []
    for create in (builder("residual"), by_hand):
        process = tiny.build(algo, LOCAL, model_spec.ModelSpec(create, (tiny.FEATURES,)), **params)
        rounds = tiny.Rounds(process, tiny.client_data(), tiers=3 if params else 1)
        rounds.next()
        found.append(rounds.weights())
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_channels_are_followed_through_blocks():
    def apply(x):
        x = dense(4, "stem")(x)
        x = layers.Add(name="added")([x, dense(4, "branch")(x)])
        return layers.Dense(3, name="head")(x)

    spec = model_spec.ModelSpec(functional((5,), apply), (5,))
    (group,) = groups.analyse(spec).groups
    assert group.layers == ("stem", "branch")


def two_inputs():
    inputs = [tf.keras.Input((5,)), tf.keras.Input((5,))]
    return tf.keras.Model(inputs, layers.Dense(3)(layers.Add()(inputs)), name="mine")


def two_outputs():
    x = tf.keras.Input((5,))
    return tf.keras.Model(x, [layers.Dense(3)(x), layers.Dense(2)(x)], name="mine")


def named_outputs():
    x = tf.keras.Input((5,))
    return tf.keras.Model(x, {"logits": layers.Dense(3)(x)}, name="mine")


def with_a_loss():
    x = tf.keras.Input((5,))
    y = layers.Dense(3)(x)
    model = tf.keras.Model(x, y, name="mine")
    model.add_loss(tf.reduce_mean(y))
    return model


def nothing():
    x = tf.keras.Input((5,))
    return tf.keras.Model(x, x, name="mine")


def own_randomness(x):
    noisy = layers.Lambda(lambda x: x + tf.random.normal(tf.shape(x)), name="noisy")
    return layers.Dense(3)(noisy(layers.Dense(5)(x)))


class Restless(layers.Layer):
    """Computes something else with every call."""

    def call(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        return x * self.calls


REFUSED = {
    "inputs": (two_inputs, "one input and one output tensor.*'mine' with 2 and 1"),
    "outputs": (two_outputs, "one input and one output tensor.*'mine' with 1 and 2"),
    "named": (named_outputs, "one input and one output tensor.*'mine'"),
    "loss": (with_a_loss, "no losses of its own; .* layer. Received: model='mine'"),
    "nothing": (nothing, "must have a layer"),
    "randomness": (functional((5,), own_randomness), "in inference mode block 'noisy' computes"),
    "restless": (
        functional((5,), lambda x: layers.Dense(3)(Restless(name="restless")(x))),
        "in inference mode block 'restless' computes",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_cut_is_refused_by_name(what):
    create, why = REFUSED[what]
    with pytest.raises(ValueError, match=why):
        model_spec.ModelSpec(create, (5,))


# Some of the blocks, in their order.
APPLICATIONS = {
    "MobileNetV2": ["Conv1", "block_2", "block_3_expand", "block_15", "predictions"],
    "EfficientNetB0": ["rescaling", "block1a_se", "block2b", "top_dropout", "predictions"],
    "ResNet50": ["conv1_conv", "conv2_block1", "conv2_block1_out", "conv5_block3", "predictions"],
}


@pytest.mark.parametrize("name", APPLICATIONS)
def test_a_model_of_keras_applications_is_cut_at_its_blocks(name):
    """`benchmarks.applications` compares the blocks with the model, and trains them."""
    create = getattr(tf.keras.applications, name)
    given = {"weights": None, "input_shape": (32, 32, 3), "classes": 4}
    spec = model_spec.ModelSpec(lambda: create(**given), (32, 32, 3), checked=True)
    with tf.Graph().as_default():
        names = [block.name for block in spec.instantiate(initial=False).blocks]
    places = [names.index(block) for block in APPLICATIONS[name]]
    assert places == sorted(places)


def like_an_application(x):
    """What these models have, with few channels: layers for the input, an inverted residual."""
    x = layers.Normalization(name="normalization")(layers.Rescaling(0.5, name="rescaling")(x))
    x = layers.Conv2D(4, 3, 2, name="stem_conv")(layers.ZeroPadding2D(name="stem_pad")(x))
    x = layers.ReLU(6.0, name="stem_relu")(layers.BatchNormalization(name="stem_bn")(x))
    y = layers.Conv2D(8, 1, use_bias=False, name="block_expand")(x)
    y = layers.DepthwiseConv2D(3, padding="same", use_bias=False, name="block_depthwise")(y)
    y = layers.BatchNormalization(name="block_bn")(y)
    y = layers.Activation("swish", name="block_swish")(y)
    z = layers.GlobalAveragePooling2D(name="block_se_pool")(y)
    z = layers.Reshape((1, 1, 8), name="block_se_reshape")(z)
    z = layers.Conv2D(8, 1, activation="sigmoid", name="block_se_expand")(z)
    y = layers.Conv2D(4, 1, name="block_project")(layers.Multiply(name="block_se")([y, z]))
    y = layers.Dropout(0.2, noise_shape=(None, 1, 1, 1), name="block_drop")(y)
    x = layers.GlobalAveragePooling2D(name="pool")(layers.Add(name="block_add")([y, x]))
    return layers.Dense(3, name="head")(x)


def test_what_applications_are_made_of_trains_after_a_cut():
    spec = model_spec.ModelSpec(functional((8, 8, 3), like_an_application), (8, 8, 3))
    rng = np.random.default_rng(0)
    data = [(rng.normal(size=(4, 8, 8, 3)).astype(np.float32), np.arange(4) % 3) for _ in range(2)]
    process = tiny.build("embracing", LOCAL, spec, tiers=("strong", "6"))
    rounds, before_cut = tiny.Rounds(process, data, 2), ("normalization", "stem")
    for clients, stay in (([0, 1], "normalization"), ([1], before_cut)):
        before = rounds.weights()
        rounds.next(clients)
        for name, a, b in zip(spec.variable_names, before, rounds.weights()):
            assert np.array_equal(a, b) == name.startswith(stay), name
            assert np.isfinite(b).all()
