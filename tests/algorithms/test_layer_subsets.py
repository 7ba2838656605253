"""EmbracingFL, FedPMT, prefix and channel against a NumPy reference of the papers."""

import collections
import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import models
from tests import tiny
from tests.references import layers as reference
from tff_partial import costs
from tff_partial.algorithms import fedpmt, registry
from tff_partial.core import client_data, local_training
from tff_partial.core import model as model_spec
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import Cut
from tff_partial.layers import channel_masks, parts
from tff_partial.layers import recorded as recording

CUTS = {"strong": Cut(0), "moderate": Cut(1), "weak": Cut(2)}
LAYERS = ("embracing", "fedpmt", "prefix", "channel")
LOCAL = LocalTraining(steps=4, batch_size=5, learning_rate=0.3, momentum=0.6, weight_decay=0.01)


def create_dense():
    sizes = (6, 5, 4)
    hidden = [tf.keras.layers.Dense(n, activation="relu", name=f"fc{n}") for n in sizes]
    return tf.keras.Sequential([*hidden, tf.keras.layers.Dense(tiny.CLASSES, name="classifier")])


def spec(cuts=CUTS):
    return model_spec.ModelSpec(create_dense, (tiny.FEATURES,), seed=3, cuts=cuts)


def build(name, local=LOCAL, **params):
    algorithm = registry.ALGORITHMS[name]
    return algorithm.build(spec(), algorithm.params(local=local, **params))


def cohort(data, tiers):
    pairs = enumerate(zip(data, tiers))
    return [client_data.create_record(x, y, i, tier=tier) for i, ((x, y), tier) in pairs]


def run(built, data, tiers, rounds):
    state = built.initialize()
    for _ in range(rounds):
        state = built.next(state, cohort(data, tiers)).state
    return tiny.flat(state.global_model_weights)


def batches(record, round_num, local=LOCAL):
    """The indices of each local step, as the client loop draws them."""
    element = client_data.in_round(record.get_single_element(), round_num)
    order = local_training.BatchOrder(local, tf.shape(element["y"])[0], element["seed"])
    return [order.indices(step).numpy() for step in range(int(order.num_steps))]


# As in PyTorch: what is trained decays, biases too, after clipping.
TORCH = {"weight_decay": 0.2, "weight_decay_on": "all", "clip_norm": 0.3}


@pytest.mark.parametrize(
    ("weighting", "sgd"),
    [
        ("uniform", {"weight_decay": 0.01}),
        ("examples", {"weight_decay": 0.01}),
        ("uniform", {"weight_decay": 0.2, "clip_norm": 0.3}),
        ("uniform", TORCH),
    ],
    ids=["uniform", "examples", "clipped", "torch"],
)
@pytest.mark.parametrize("name", LAYERS)
def test_equals_numpy_with_three_clients_in_three_tiers(name, weighting, sgd):
    data, tiers = tiny.client_data(), (0, 1, 2)
    built = build(name, dataclasses.replace(LOCAL, **sgd), weighting=weighting)
    initial = tiny.flat(built.initialize().global_model_weights)
    drawn = [[batches(r, t) for r in cohort(data, tiers)] for t in range(4)]
    expected = getattr(reference, name)(
        initial,
        data,
        [0, 1, 2],
        drawn,
        lr=0.3,
        momentum=0.6,
        by_examples=weighting == "examples",
        **sgd,
    )
    found = run(built, data, tiers, rounds=4)
    assert max(np.abs(a - b).max() for a, b in zip(found, initial)) > 0.1
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_without_a_strong_client_what_nobody_trained_stays(name):
    data = tiny.client_data()
    built = build(name)
    initial = tiny.flat(built.initialize().global_model_weights)
    found = run(built, data, (2, 2, 2), rounds=2)
    moved = [not np.array_equal(a, b) for a, b in zip(found, initial)]
    expected = {
        "embracing": [False] * 4 + [True] * 4,
        "fedpmt": [False] * 4 + [True] * 4,
        "prefix": [True] * 4 + [False] * 4,
        "channel": [True] * 8,
    }
    assert moved == expected[name]
    if name == "channel":
        np.testing.assert_array_equal(found[0][:, 3:], initial[0][:, 3:])
        np.testing.assert_array_equal(found[3][3:], initial[3][3:])


def test_accuracy_is_reported_by_tier():
    built = build("embracing")
    output = built.next(built.initialize(), cohort(tiny.client_data(), (0, 0, 2)))
    metrics = output.metrics["client_work"]
    assert np.isnan(metrics["train_accuracy_moderate"])  # an empty cell of metrics.csv
    alone = [
        built.next(built.initialize(), cohort(tiny.client_data(), (0, 0, 2))[k]).metrics
        for k in (slice(0, 2), slice(2, 3))
    ]
    strong, weak = (float(m["client_work"]["train_accuracy"]) for m in alone)
    assert float(metrics["train_accuracy_strong"]) == pytest.approx(strong)
    assert float(metrics["train_accuracy_weak"]) == pytest.approx(weak)


@pytest.mark.parametrize(("tiers", "wrong"), [(("strong", "weak"), (2, -1)), (("strong",), (1,))])
def test_a_record_of_a_tier_that_is_not_there_is_an_error(tiers, wrong):
    built = build("embracing", tiers=tiers)
    for tier in wrong:
        message = rf"tier must be from 0 to {len(tiers) - 1}\. Received: tier=.*{tier}"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            built.next(built.initialize(), cohort(tiny.client_data()[:1], (tier,)))


@pytest.mark.parametrize("name", LAYERS)
def test_a_client_without_examples_changes_nothing(name):
    x, y = tiny.client_data()[0]
    built = build(name)
    initial = tiny.flat(built.initialize().global_model_weights)
    for tier in range(3):
        for a, b in zip(run(built, [(x[:0], y[:0])], (tier,), rounds=1), initial):
            np.testing.assert_array_equal(a, b)


def test_a_record_on_disk_trains_the_same_model(tmp_path):
    data, tiers = tiny.client_data(), (0, 1, 2)
    in_memory = run(build("embracing"), data, tiers, rounds=2)
    on_disk = run(build("embracing", record_dir=str(tmp_path)), data, tiers, rounds=2)
    for a, b in zip(in_memory, on_disk):
        np.testing.assert_array_equal(a, b)
    clients = {name.name.split("-")[0] for name in tmp_path.iterdir()}
    assert clients == {"1", "2"}


def cost(model, params):
    """What a round costs a client of the only tier."""
    return fedpmt.cost(model, params, *params.tiers)


def test_devices_pick_the_largest_mask_that_their_capability_allows():
    model = spec()
    local = LocalTraining(epochs=1, batch_size=12)
    shares = [cost(model, fedpmt.Params(local, (str(k),))).operations(1, 12, 12) for k in range(4)]
    for k, share in enumerate(shares):
        capability = f"{min(share / shares[0] + 0.006, 0.99):.2f}"
        params = fedpmt.Params(local, (capability,), option="device")
        chosen = cost(model, params)
        expected = max(k, 1)  # the whole model does not fit below 1
        assert chosen.operations(1, 12, 12) == shares[expected]
    offered = fedpmt.Params(local, ("0.99",), option="device", masks="0,3")
    assert cost(model, offered).operations(1, 12, 12) == shares[3]
    too_weak = fedpmt.Params(local, ("0.01",), option="device")
    with pytest.raises(ValueError, match="capability must be at least .* Received: 0.01"):
        cost(model, too_weak)


@pytest.mark.parametrize(
    ("masks", "tier", "removed"),
    [
        ("", "strong", 0),
        ("", "moderate", 1),
        ("", "weak", 2),
        ("", "3", 3),
        ("0,3", "strong", 0),
        ("0,3", "moderate", 3),
        ("0,3", "weak", 3),
        ("3,2", "1", 2),
        ("1,2", "strong", 1),
    ],
)
def test_a_device_of_a_named_tier_picks_from_what_is_offered(masks, tier, removed):
    device = fedpmt.Params(LOCAL, (tier,), option="device", masks=masks)
    server = fedpmt.Params(LOCAL, (str(removed),))
    assert cost(spec(), device) == cost(spec(), server)


def test_no_mask_for_a_named_tier_is_an_error():
    device = fedpmt.Params(LOCAL, ("strong", "weak"), option="device", masks="0,1")
    message = r"^masks must have one of at least 2 for the tier 'weak'\. Received: masks='0,1'$"
    with pytest.raises(ValueError, match=message):
        fedpmt.build(spec(), device)


def nested_head():
    """The last layer has no bias; the block around it holds another, and nothing follows."""
    layers = tf.keras.layers
    inner = tf.keras.Sequential([layers.Dense(2, use_bias=False, name="last")])
    head = tf.keras.Sequential([layers.Dense(4, name="hidden"), inner])
    return tf.keras.Sequential([layers.Dense(6, name="first"), head, layers.Softmax()])


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
