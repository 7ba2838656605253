"""Sub-models: weights out of the full model and back, and the algorithms against NumPy."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from tests import tiny
from tests.references import submodels as reference
from tff_partial import tiers
from tff_partial.core import client_data as records
from tff_partial.core import local_training
from tff_partial.core import model as model_spec
from tff_partial.core.local_training import LocalTraining
from tff_partial.submodels import groups as channel_groups
from tff_partial.submodels import selection, slicing

TIERS = ("1", "1/2", "1/4")
RATES = [tier.rate for tier in tiers.as_tiers(TIERS, are_rates=True)]
LOCAL = LocalTraining(
    steps=4, batch_size=5, learning_rate=0.2, momentum=0.9, weight_decay=0.01, clip_norm=1.0
)
NAMES = {
    "dense": ("fc1", "fc2", "out"),
    "conv": ("conv1", "conv2", "conv3", "out"),
}


def create_dense():
    layers = tf.keras.layers
    hidden = [layers.Dense(m, "relu", name=f"fc{i}") for i, m in enumerate((7, 6), 1)]
    return tf.keras.Sequential([*hidden, layers.Dense(4, name="out")])


def create_conv():
    layers = tf.keras.layers

    def conv(name, size):
        return layers.Conv2D(size, 3, padding="same", name=name)

    a = tf.keras.Input((4, 4, 5))
    added = layers.Add()([a, conv("conv2", 5)(a)])
    residual = tf.keras.Model(a, layers.ReLU()(added), name="residual")
    return tf.keras.Sequential(
        [
            tf.keras.Sequential([tf.keras.Input((4, 4, 2)), conv("conv1", 5), layers.ReLU()]),
            residual,
            conv("conv3", 6),
            layers.ReLU(),
            layers.Flatten(),
            layers.Dense(4, name="out"),
        ]
    )


NETS = {
    "dense": (reference.DENSE, model_spec.ModelSpec(create_dense, (5,), seed=3)),
    "conv": (reference.CONV, model_spec.ModelSpec(create_conv, (4, 4, 2), seed=3)),
}


def client_data(net, seed=0):
    """Three clients with 11, 14 and 17 examples; the first two lack a class each."""
    rng = np.random.default_rng(seed)
    shape = NETS[net][1].input_shape
    classes = ([0, 1, 2], [1, 2, 3], [0, 1, 2, 3])
    return [
        (rng.normal(size=(n, *shape)).astype(np.float32), rng.choice(c, n).astype(np.int32))
        for n, c in zip((11, 14, 17), classes)
    ]


def as_dict(net, flat):
    names = [f"{layer}/{kind}" for layer in NAMES[net] for kind in ("kernel", "bias")]
    return dict(zip(names, flat))


def element(record, round_num):
    return records.in_round(record.get_single_element(), round_num)


def batches(record, round_num):
    found = element(record, round_num)
    order = local_training.BatchOrder(LOCAL, tf.shape(found["y"])[0], found["seed"])
    return [order.indices(step).numpy() for step in range(int(order.num_steps))]


def kept_by(algo, net, weights, record, round_num, rate, rounding):
    """The channels of a client, by the reference's rules; random ones as the library draws them."""
    full = reference.widths(weights)
    sizes = [reference.size(rate, m, rounding) for m in full]
    if algo == "fedrolex":
        return [reference.rolling(k, m, round_num) for k, m in zip(sizes, full)]
    if algo == "feddse":
        values = reference.scores(NETS[net][0], weights, record.get_single_element()["x"].numpy())
        return [reference.top_k(v, k) for v, k in zip(values, sizes)]
    if algo == "feddropout":
        rule = selection.random(channel_groups.analyse(NETS[net][1]))
        request = selection.Request(sizes, None, element(record, round_num), round_num)
        return [indices.numpy() for indices in rule(request)]
    return [reference.ordered(k, m) for k, m in zip(sizes, full)]


def fjord_rates(record, round_num, rate):
    """The rate of each local step, as the library draws them among those that fit."""
    fitting = [r for r in RATES if r <= rate]
    seed = element(record, round_num)["seed"]
    fold_in = tf.random.experimental.stateless_fold_in
    seeds = [fold_in(seed + tf.constant([step + 1, 0]), 0xF) for step in range(LOCAL.steps)]
    drawn = [tf.random.stateless_uniform([], s, 0, len(fitting), tf.int32) for s in seeds]
    return [fitting[int(i)] for i in drawn]


@pytest.mark.parametrize("net", ["dense", "conv"])
@pytest.mark.parametrize(
    ("algo", "weighting"),
    [
        ("heterofl", "uniform"),
        ("width_reduction", "examples"),
        ("fedrolex", "uniform"),
        ("feddropout", "examples"),
        ("feddse", "uniform"),
        ("fjord", "examples"),
    ],
)
def test_equals_numpy_with_three_clients_at_three_rates(algo, net, weighting):
    check_against_numpy(algo, net, weighting, LOCAL)


def test_fedrolex_rolls_forward_as_in_the_paper_and_not_as_in_its_code():
    channels = channel_groups.analyse(NETS["dense"][1])
    rule, widths = selection.rolling(channels), [group.size for group in channels.groups]
    forward, backward = [], []
    for t in range(9):
        found = rule(selection.Request([3, 2], None, None, t))
        for indices, m, k in zip(found, widths, (3, 2)):
            paper, code = (np.sort(np.roll(np.arange(m), s)[:k]) for s in (-t, t))
            forward.append(np.array_equal(indices, paper))
            backward.append(np.array_equal(indices, code))
    assert all(forward)
    assert not all(backward)


@pytest.mark.parametrize("algo", ["heterofl", "fjord"])
def test_equals_numpy_with_weight_decay_as_in_pytorch(algo):
    """All parameters decay, after clipping: both rules differ by far more than the tolerance."""
    local = dataclasses.replace(LOCAL, weight_decay=0.2, weight_decay_on="all", clip_norm=0.3)
    check_against_numpy(algo, "conv", "uniform", local)


def check_against_numpy(algo, net, weighting, local):
    is_hetero = algo not in ("width_reduction", "fjord")
    rounding = "floor" if algo == "width_reduction" else "ceil"
    data = client_data(net)
    process = tiny.build(algo, local, NETS[net][1], tiers=TIERS, weighting=weighting)
    rounds = tiny.Rounds(process, data, tiers=3)
    expected = as_dict(net, rounds.weights())
    for round_num in range(3):
        clients = []
        for (x, y), record, rate in zip(data, rounds.records, RATES):
            kept = kept_by(algo, net, expected, record, round_num, rate, rounding)
            client = {"x": x, "y": y, "kept": kept, "rate": rate}
            client["batches"] = batches(record, round_num)
            if algo == "fjord":
                rates = fjord_rates(record, round_num, rate)
                client["steps"] = reference.fjord_steps(reference.widths(expected), rates)
            clients.append(client)
        expected = reference.federated_round(
            NETS[net][0],
            expected,
            clients,
            weighting,
            lr=local.learning_rate,
            momentum=local.momentum,
            weight_decay=local.weight_decay,
            weight_decay_on=local.weight_decay_on,
            clip_norm=local.clip_norm,
            scale=is_hetero,
            masked=is_hetero,
        )
        rounds.next()
        for name, value in as_dict(net, rounds.weights()).items():
            np.testing.assert_allclose(value, expected[name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("algo", ["heterofl", "feddropout"])
def test_classes_that_a_client_lacks_are_left_out_even_if_their_logits_are_not(algo):
    """As in HeteroFL's code; Federated Dropout does neither."""
    data, (net, spec) = client_data("dense"), NETS["dense"]
    process = tiny.build(algo, LOCAL, spec, tiers=("1",), masked_logits=False)
    rounds = tiny.Rounds(process, data)
    weights = as_dict("dense", rounds.weights())
    kept = [np.arange(m) for m in reference.widths(weights)]
    clients = [
        {"x": x, "y": y, "kept": kept, "batches": batches(record, 0)}
        for (x, y), record in zip(data, rounds.records)
    ]
    expected = reference.federated_round(
        net,
        weights,
        clients,
        masked_rows=algo == "heterofl",
        lr=LOCAL.learning_rate,
        momentum=LOCAL.momentum,
        weight_decay=LOCAL.weight_decay,
        clip_norm=LOCAL.clip_norm,
    )
    rounds.next()
    for name, value in as_dict("dense", rounds.weights()).items():
        np.testing.assert_allclose(value, expected[name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("net", ["dense", "conv"])
def test_scores_equal_numpy_in_batches_and_at_once(net):
    from tff_partial.submodels import scores as activations

    numpy_net, spec = NETS[net]
    channels, model = channel_groups.analyse(spec), spec.instantiate()
    x = client_data(net)[2][0]
    expected = reference.scores(numpy_net, as_dict(net, [v.numpy() for v in model.trainable]), x)
    for batch_size in (4, 100):
        score = tf.function(activations.build_scores(model, channels, 0, batch_size))
        for ours, theirs in zip(score(tf.constant(x), tf.constant([1, 2])), expected):
            np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_inference_examples_are_a_random_part():
    from tff_partial.submodels import scores as activations

    _, spec = NETS["dense"]
    channels, model = channel_groups.analyse(spec), spec.instantiate()
    x = client_data("dense")[2][0]
    score = tf.function(activations.build_scores(model, channels, 3, 100))
    everything = tf.function(activations.build_scores(model, channels, 0, 100))
    few = [score(tf.constant(x), tf.constant([seed, 0]))[0].numpy() for seed in range(40)]
    whole = everything(tf.constant(x), tf.constant([0, 0]))[0].numpy()
    assert len({tuple(values) for values in few}) > 30
    error = np.std(few, axis=0).max() / np.sqrt(40)
    np.testing.assert_allclose(np.mean(few, axis=0), whole, atol=5 * error)


def random_kept(groups, rng):
    sizes = [int(rng.integers(1, g.size + 1)) for g in groups]
    return [np.sort(rng.permutation(g.size)[:k]).astype(np.int32) for g, k in zip(groups, sizes)]


@pytest.mark.parametrize("net", ["dense", "conv"])
@pytest.mark.parametrize("seed", range(5))
def test_restore_undoes_extract_and_is_nothing_elsewhere(net, seed):
    rng = np.random.default_rng(seed)
    _, spec = NETS[net]
    channels, model = channel_groups.analyse(spec), spec.instantiate()
    values = [rng.normal(size=v.shape).astype(np.float32) for v in model.trainable]
    kept = random_kept(channels.groups, rng)
    small = slicing.extract(channels, values, kept)
    full, weights = slicing.restore(channels, small, kept)
    mask = reference.restore(
        reference.extract(as_dict(net, values), kept), kept, as_dict(net, values)
    )[1]
    for value, restored, weight, expected in zip(values, full, weights, mask.values()):
        np.testing.assert_array_equal(np.broadcast_to(weight, value.shape), expected)
        np.testing.assert_array_equal(restored, value * expected)


@pytest.mark.parametrize("net", ["dense", "conv"])
@pytest.mark.parametrize("everything", ["indices", "none"])
def test_keeping_everything_is_the_identity(net, everything):
    _, spec = NETS[net]
    channels, model = channel_groups.analyse(spec), spec.instantiate()
    values = [v.numpy() for v in model.trainable]
    kept = [np.arange(g.size) if everything == "indices" else None for g in channels.groups]
    for value, small in zip(values, slicing.extract(channels, values, kept)):
        np.testing.assert_array_equal(small, value)
    full, weights = slicing.restore(channels, values, kept)
    for value, restored, weight in zip(values, full, weights):
        np.testing.assert_array_equal(restored, value)
        assert (weight.numpy() == 1).all()


def test_fedrolex_covers_every_channel_equally_in_one_cycle():
    channels = channel_groups.analyse(NETS["conv"][1])
    rule, sizes = selection.rolling(channels), [2, 4]
    for group, k in enumerate(sizes):
        m = channels.groups[group].size
        counts = np.zeros(m, int)
        for round_num in range(m):
            kept = rule(selection.Request(sizes, None, None, round_num))[group].numpy()
            assert len(set(kept)) == k
            counts[kept] += 1
        assert (counts == k).all()


def draws(temperature, scores, k, count=2000):
    """How often each neuron is among the k that are kept, for so many clients."""
    counts = np.zeros(len(scores))
    for client in range(count):
        record = {"seed": tf.constant([client, 7])}
        request = selection.Request([k], None, record, 0)
        counts[selection.sampled([tf.constant(scores)], request, temperature)[0].numpy()] += 1
    return counts


def p_value(statistic, degrees):
    """Of the chi-square distribution; scipy.stats warns on import with this NumPy."""
    return special.gammaincc(degrees / 2, statistic / 2)


def test_an_infinite_temperature_is_uniform_by_chi_square():
    counts, k, m, n = draws(1e9, [5.0, 1.0, 0.0, 3.0, 2.0, 9.0], 2), 2, 6, 2000
    # Indicators of a draw without replacement: variance n p (1 - p), correlation -1 / (m - 1).
    expected, variance = n * k / m, n * (k / m) * (1 - k / m)
    statistic = ((counts - expected) ** 2).sum() / variance * (m - 1) / m
    assert p_value(statistic, m - 1) > 1e-3


def test_temperature_one_samples_one_neuron_by_softmax():
    scores = np.array([2.0, 1.0, 0.0, -1.0], np.float32)
    counts = draws(1.0, scores, 1)
    expected = 2000 * np.exp(scores) / np.exp(scores).sum()
    assert p_value(((counts - expected) ** 2 / expected).sum(), 3) > 1e-3


def test_temperature_zero_is_top_k_and_random_dropout_is_uniform():
    assert list(draws(0.0, [0.3, 0.9, 0.1, 0.9], 2, 3)) == [0, 3, 0, 3]
    channels = channel_groups.analyse(NETS["dense"][1])
    rule, counts = selection.random(channels), np.zeros(7)
    for client in range(1400):
        record = {"seed": tf.constant([client, 3])}
        counts[rule(selection.Request([1, 1], None, record, 0))[0].numpy()] += 1
    assert p_value(((counts - 200) ** 2 / 200).sum(), 6) > 1e-3


def test_what_nobody_holds_does_not_move():
    process = tiny.build("heterofl", LOCAL, NETS["conv"][1], tiers=("1/2", "1/4"))
    rounds = tiny.Rounds(process, client_data("conv"), tiers=2)
    before = as_dict("conv", rounds.weights())
    rounds.next()
    after = as_dict("conv", rounds.weights())
    np.testing.assert_array_equal(after["conv1/kernel"][..., 3:], before["conv1/kernel"][..., 3:])
    np.testing.assert_array_equal(
        after["conv2/kernel"][..., 3:, :], before["conv2/kernel"][..., 3:, :]
    )
    assert (after["conv2/kernel"][..., :3, :3] != before["conv2/kernel"][..., :3, :3]).all()


def test_fedavg_and_a_whole_model_are_equal_bit_for_bit():
    spec = dataclasses.replace(NETS["conv"][1])
    found = []
    for name, params in (
        ("fedavg", {}),
        ("heterofl", {"tiers": ("1",), "masked_logits": False, "masked_rows": False}),
        ("fedrolex", {"tiers": ("1",), "masked_logits": False, "masked_rows": False}),
        ("feddropout", {"tiers": ("1",), "masked_logits": False}),
        ("feddse", {"tiers": ("1",), "masked_logits": False, "masked_rows": False}),
        ("fjord", {"tiers": ("1",)}),
        ("width_reduction", {"tiers": ("1",)}),
    ):
        rounds = tiny.Rounds(
            tiny.build(name, LOCAL, spec, weighting="uniform", **params), client_data("conv")
        )
        rounds.next()
        rounds.next()
        found.append(rounds.weights())
    for other in found[1:]:
        for a, b in zip(found[0], other):
            np.testing.assert_array_equal(a, b)


def test_distillation_moves_the_mean_towards_the_ensemble():
    data = client_data("dense")
    examples = np.random.default_rng(9).normal(size=(40, 5)).astype(np.float32)
    found = {}
    for steps in (1, 60):
        params = {"distill": 40, "distill_steps": steps, "server_examples": lambda n: examples[:n]}
        process = tiny.build("feddse", LOCAL, NETS["dense"][1], tiers=TIERS, **params)
        rounds = tiny.Rounds(process, data, tiers=3)
        rounds.next()
        found[steps] = as_dict("dense", rounds.weights())
    plain = tiny.Rounds(tiny.build("feddse", LOCAL, NETS["dense"][1], tiers=TIERS), data, tiers=3)
    before = as_dict("dense", plain.weights())
    plain.next()
    mean = as_dict("dense", plain.weights())
    clients = []
    for (x, y), record, rate in zip(data, plain.records, RATES):
        kept = kept_by("feddse", "dense", before, record, 0, rate, "ceil")
        client = {"x": x, "y": y, "kept": kept, "batches": batches(record, 0)}
        small = reference.extract(before, kept)
        small = reference.train(
            reference.DENSE, small, client, 0.2, 0.9, weight_decay=0.01, clip_norm=1.0, masked=True
        )
        clients.append(reference.forward(reference.DENSE, small, examples)["logits"])
    ensemble = np.mean(clients, axis=0)

    def divergence(weights):
        logits = reference.forward(reference.DENSE, weights, examples)["logits"]
        p = np.exp(reference.log_softmax(ensemble))
        return (p * (np.log(p) - reference.log_softmax(logits))).sum(1).mean()

    # Adam's first step is the rate times the sign of the gradient.
    moved = np.abs(found[1]["fc1/kernel"] - mean["fc1/kernel"])
    assert moved.max() == pytest.approx(1e-3, rel=1e-2)
    assert divergence(found[60]) < divergence(found[1]) < divergence(mean)


def test_distillation_must_have_examples():
    with pytest.raises(ValueError, match="Received: distill=5"):
        tiny.build("feddse", LOCAL, NETS["dense"][1], tiers=TIERS, distill=5)


def test_distillation_leaves_the_model_alone_without_contributors():
    examples = np.random.default_rng(9).normal(size=(40, 5)).astype(np.float32)
    params = {"distill": 40, "distill_steps": 5, "server_examples": lambda n: examples[:n]}
    process = tiny.build("feddse", LOCAL, NETS["dense"][1], tiers=("1/2",), **params)
    empty = [(x[:0], y[:0]) for x, y in client_data("dense")]
    rounds = tiny.Rounds(process, empty)
    before = rounds.weights()
    rounds.next()
    for a, b in zip(rounds.weights(), before):
        np.testing.assert_array_equal(a, b)


def test_distillation_of_a_model_with_one_logit():
    def create():
        return tf.keras.Sequential([tf.keras.layers.Dense(4, "relu"), tf.keras.layers.Dense(1)])

    examples = np.random.default_rng(9).normal(size=(40, tiny.FEATURES)).astype(np.float32)
    data = [(x, np.minimum(y, 1)) for x, y in tiny.client_data()]
    found = []
    for steps in (1, 40):
        params = {"distill": 40, "distill_steps": steps, "server_examples": lambda n: examples[:n]}
        spec = model_spec.ModelSpec(create, (tiny.FEATURES,))
        rounds = tiny.Rounds(tiny.build("feddse", LOCAL, spec, tiers=("1/2",), **params), data)
        rounds.next()
        found.append(rounds.weights())
    assert max(np.abs(a - b).max() for a, b in zip(*found)) > 1e-3
