"""The NumPy reference has to be right before anything is held against it.

Gradients are checked by finite differences, the rest by identities and by values worked by hand.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.references import submodels as ref

CLASSES, EXAMPLES, POSITIONS = 4, 11, 12
WIDTHS = {ref.DENSE: [6, 5], ref.CONV: [4, 3]}
KEPT = {
    ref.DENSE: [np.array([0, 2, 5]), np.array([1, 4])],
    ref.CONV: [np.array([1, 2]), np.array([0, 2])],
}
SHAPES = {
    ref.DENSE: {
        "fc1/kernel": (7, 6),
        "fc1/bias": (6,),
        "fc2/kernel": (6, 5),
        "fc2/bias": (5,),
        "out/kernel": (5, CLASSES),
        "out/bias": (CLASSES,),
    },
    ref.CONV: {
        "conv1/kernel": (3, 3, 2, 4),
        "conv1/bias": (4,),
        "conv2/kernel": (3, 3, 4, 4),
        "conv2/bias": (4,),
        "conv3/kernel": (3, 3, 4, 3),
        "conv3/bias": (3,),
        "out/kernel": (POSITIONS * 3, CLASSES),
        "out/bias": (CLASSES,),
    },
}
NETS = pytest.mark.parametrize("net", [ref.DENSE, ref.CONV], ids=["dense", "conv"])
LOCAL = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.05, "clip_norm": 2.0}


def create_weights(net: ref.Net, seed: int = 0) -> ref.Arrays:
    """Biases are not zero, so that none of it hides in a zero."""
    rng = np.random.default_rng(seed)
    return {name: 0.5 * rng.normal(size=shape) for name, shape in SHAPES[net].items()}


def create_client(net: ref.Net, kept: ref.Kept, seed: int = 1, **more) -> dict:
    """A client of three local steps that has no example of the last class."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(EXAMPLES, 7) if net is ref.DENSE else (EXAMPLES, 3, 4, 2))
    y = rng.integers(0, CLASSES - 1, EXAMPLES)
    batches = [rng.choice(EXAMPLES, 4, replace=False) for _ in range(3)]
    return {"x": x, "y": y, "kept": kept, "batches": batches, **more}


def whole(net: ref.Net) -> ref.Kept:
    return [np.arange(m) for m in WIDTHS[net]]


def assert_same(actual: ref.Arrays, expected: ref.Arrays, atol: float = 1e-12) -> None:
    assert list(actual) == list(expected)
    for name in expected:
        np.testing.assert_allclose(actual[name], expected[name], rtol=0, atol=atol, err_msg=name)


def numeric(function, weights: ref.Arrays, step: float = 1e-5) -> ref.Arrays:
    """Central differences of a function of the weights."""
    result = {name: np.zeros(w.shape) for name, w in weights.items()}
    for name, w in weights.items():
        for i in np.ndindex(w.shape):
            ends = [{**weights, name: w.copy()} for _ in range(2)]
            ends[0][name][i] += step
            ends[1][name][i] -= step
            result[name][i] = (function(ends[0]) - function(ends[1])) / (2 * step)
    return result


@NETS
@pytest.mark.parametrize("rate", [1.0, 0.4])
@pytest.mark.parametrize("present", [1.0, np.array([1.0, 1.0, 1.0, 0.0])], ids=["all", "masked"])
def test_gradients(net, rate, present):
    weights, client = create_weights(net), create_client(net, KEPT[net])
    args = (client["x"], client["y"], rate, present)
    expected = numeric(lambda w: ref.loss(net, w, *args), weights)
    actual = ref.gradients(net, weights, *args)
    assert_same(actual, expected, atol=1e-6)
    assert all(np.abs(g).max() > 1e-3 for g in actual.values())


def test_correlate_by_loops():
    rng = np.random.default_rng(0)
    x, kernel = rng.normal(size=(2, 3, 4, 2)), rng.normal(size=(3, 3, 2, 5))
    expected = np.zeros((2, 3, 4, 5))
    for h, w, i, j in itertools.product(range(3), range(4), range(3), range(3)):
        if 0 <= h + i - 1 < 3 and 0 <= w + j - 1 < 4:
            expected[:, h, w] += x[:, h + i - 1, w + j - 1] @ kernel[i, j]
    np.testing.assert_allclose(ref.correlate(x, kernel), expected, atol=1e-12)


@NETS
def test_zero_weights_give_the_loss_of_guessing(net):
    weights = {name: np.zeros(shape) for name, shape in SHAPES[net].items()}
    client = create_client(net, KEPT[net])
    assert ref.loss(net, weights, client["x"], client["y"]) == pytest.approx(np.log(CLASSES))


def test_rate_divides_convolutions_only():
    weights, x = create_weights(ref.CONV), create_client(ref.CONV, KEPT[ref.CONV])["x"]
    divided = {n: w / 0.4 if n.startswith("conv") else w for n, w in weights.items()}
    assert_same(ref.forward(ref.CONV, weights, x, 0.4), ref.forward(ref.CONV, divided, x))
    weights, x = create_weights(ref.DENSE), create_client(ref.DENSE, KEPT[ref.DENSE])["x"]
    assert_same(ref.forward(ref.DENSE, weights, x, 0.4), ref.forward(ref.DENSE, weights, x))


@NETS
def test_extract_is_slicing(net):
    weights = create_weights(net)
    small = ref.extract(weights, [ref.ordered(2, m) for m in WIDTHS[net]])
    if net is ref.DENSE:
        expected = weights["out/kernel"][:2]
        np.testing.assert_array_equal(small["fc2/kernel"], weights["fc2/kernel"][:2, :2])
    else:
        expected = weights["out/kernel"].reshape(POSITIONS, 3, CLASSES)[:, :2].reshape(-1, CLASSES)
        np.testing.assert_array_equal(small["conv1/kernel"], weights["conv1/kernel"][..., :2])
        np.testing.assert_array_equal(small["conv2/kernel"], weights["conv2/kernel"][..., :2, :2])
    np.testing.assert_array_equal(small["out/kernel"], expected)
    np.testing.assert_array_equal(small["out/bias"], weights["out/bias"])


@NETS
def test_extract_and_restore_are_inverse(net):
    weights, kept = create_weights(net), KEPT[net]
    small = ref.extract(weights, kept)
    delta, mask = ref.restore(small, kept, weights)
    assert_same(ref.extract(delta, kept), small)
    assert_same(delta, {n: mask[n] * w for n, w in weights.items()})
    assert {n: m.sum() for n, m in mask.items()} == {n: w.size for n, w in small.items()}
    assert_same(ref.extract(weights, whole(net)), weights)


@NETS
@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_small_model_is_the_full_one_with_zeros(net, rate):
    """A channel whose weights are all 0 puts out 0, so the two are the same function."""
    weights, client, kept = create_weights(net), create_client(net, KEPT[net]), KEPT[net]
    small = ref.extract(weights, kept)
    zeroed, mask = ref.restore(small, kept, weights)
    logits = [ref.forward(net, w, client["x"], rate)["logits"] for w in (small, zeroed)]
    np.testing.assert_allclose(*logits, atol=1e-12)
    args = (client["x"], client["y"], rate)
    expected = ref.gradients(net, zeroed, *args)
    actual, _ = ref.restore(ref.gradients(net, small, *args), kept, weights)
    assert_same(actual, {n: mask[n] * g for n, g in expected.items()})


def test_size():
    assert [ref.size(0.1, 30), ref.size(0.1, 31), ref.size(0.5, 5)] == [3, 4, 3]
    assert [ref.size(0.29, 100, "floor"), ref.size(0.5, 5, "floor")] == [29, 2]
    assert ref.size(0.07, 100) == 7  # 0.07 * 100 is 7.000000000000001.
    assert [ref.size(0.01, 4), ref.size(0.01, 4, "floor")] == [1, 1]
    assert [ref.size(1.0, 4), ref.size(1.0, 4, "floor")] == [4, 4]


def test_rules():
    assert ref.ordered(2, 5).tolist() == [0, 1]
    assert ref.rolling(3, 5, 1).tolist() == [1, 2, 3]
    assert ref.rolling(3, 5, 9).tolist() == [0, 1, 4]
    assert ref.top_k(np.array([1.0, 3.0, 2.0, 3.0, 2.0]), 3).tolist() == [1, 2, 3]
    assert ref.top_k(np.arange(200) % 2, 30).tolist() == list(range(1, 61, 2))
    held = np.bincount(np.concatenate([ref.rolling(2, 5, r) for r in range(5)]))
    assert held.tolist() == [2] * 5


def test_fjord_steps():
    kept = ref.fjord_steps([6, 5], [0.5, 1.0])
    assert [[k.tolist() for k in step] for step in kept] == [
        [[0, 1, 2], [0, 1, 2]],
        [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4]],
    ]
    assert len(ref.fjord_steps([5], [0.5], "floor")[0][0]) == 2


def test_scores():
    weights, x = create_weights(ref.DENSE), create_client(ref.DENSE, KEPT[ref.DENSE])["x"]
    h1 = np.maximum(x @ weights["fc1/kernel"] + weights["fc1/bias"], 0)
    np.testing.assert_allclose(ref.scores(ref.DENSE, weights, x)[0], h1.sum(axis=0) / EXAMPLES)
    weights, x = create_weights(ref.CONV), create_client(ref.CONV, KEPT[ref.CONV])["x"]
    acts, actual = ref.forward(ref.CONV, weights, x), ref.scores(ref.CONV, weights, x)
    count = EXAMPLES * POSITIONS
    both = acts["a"].sum(axis=(0, 1, 2)) + acts["s"].sum(axis=(0, 1, 2))
    np.testing.assert_allclose(actual[0], both / (2 * count))
    np.testing.assert_allclose(actual[1], acts["t"].sum(axis=(0, 1, 2)) / count)


@NETS
def test_train_by_hand(net):
    """Two steps with all the options."""
    w, client = create_weights(net), create_client(net, KEPT[net], rate=0.5)
    client["batches"] = client["batches"][:2]
    actual = ref.train(net, w, client, scale=True, masked=True, **LOCAL)
    present, v = np.array([1, 1, 1, 0]), dict.fromkeys(w, 0.0)
    for b in client["batches"]:
        g = ref.gradients(net, w, client["x"][b], client["y"][b], 0.5, present)
        for n in g:
            g[n] = g[n] + 0.05 * w[n] if "kernel" in n else g[n]
        norm = np.linalg.norm(np.concatenate([np.ravel(value) for value in g.values()]))
        v = {n: 0.9 * v[n] + g[n] * min(1.0, 2.0 / norm) for n in w}
        w = {n: w[n] - 0.1 * v[n] for n in w}
    assert_same(actual, w)


@NETS
def test_clipped_step_has_the_norm(net):
    weights, client = create_weights(net), create_client(net, KEPT[net])
    client["batches"] = client["batches"][:1]
    new = ref.train(net, weights, client, lr=0.1, clip_norm=0.01)
    squares = sum(((new[n] - weights[n]) ** 2).sum() for n in weights)
    assert np.sqrt(squares) == pytest.approx(0.1 * 0.01)
    loose = ref.train(net, weights, client, lr=0.1, clip_norm=1e6)
    assert_same(loose, ref.train(net, weights, client, lr=0.1))


@NETS
def test_masked_leaves_absent_classes_alone(net):
    weights, client = create_weights(net), create_client(net, KEPT[net])
    new = ref.train(net, weights, client, lr=0.1, momentum=0.9, masked=True)
    np.testing.assert_array_equal(new["out/bias"][3], weights["out/bias"][3])
    np.testing.assert_array_equal(new["out/kernel"][:, 3], weights["out/kernel"][:, 3])
    plain = ref.train(net, weights, client, lr=0.1, momentum=0.9)
    assert plain["out/bias"][3] != weights["out/bias"][3]


@NETS
def test_scale_needs_convolutions(net):
    weights, client = create_weights(net), create_client(net, KEPT[net], rate=0.5)
    scaled, plain = (ref.train(net, weights, client, scale=s, **LOCAL) for s in (True, False))
    same = all(np.array_equal(scaled[n], plain[n]) for n in weights)
    assert same == (net is ref.DENSE)


@NETS
def test_fjord_of_full_steps_is_plain_sgd(net):
    weights, client = create_weights(net), create_client(net, KEPT[net])
    steps = ref.fjord_steps(WIDTHS[net], [1.0] * 3)
    fjord = ref.train(net, weights, {**client, "steps": steps}, **LOCAL)
    assert_same(fjord, ref.train(net, weights, client, **LOCAL))


@NETS
def test_fjord_of_small_steps_is_sgd_of_the_small_model(net):
    weights, client = create_weights(net), create_client(net, KEPT[net])
    steps = ref.fjord_steps(WIDTHS[net], [0.5] * 3)
    new = ref.train(net, weights, {**client, "steps": steps}, lr=0.1, momentum=0.9)
    small = ref.train(net, ref.extract(weights, steps[0]), client, lr=0.1, momentum=0.9)
    inside, mask = ref.restore(small, steps[0], weights)
    assert_same(new, {n: inside[n] + (1 - mask[n]) * w for n, w in weights.items()})


@NETS
def test_fjord_keeps_momentum_and_decay_outside_of_a_step(net):
    """After a full step, a small one moves the rest by its momentum and decay alone."""
    weights, client = create_weights(net), create_client(net, KEPT[net])
    steps = ref.fjord_steps(WIDTHS[net], [1.0, 0.5])
    sgd = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.05}
    first, second = (
        ref.train(net, weights, {**client, "steps": steps, "batches": client["batches"][:t]}, **sgd)
        for t in (1, 2)
    )
    _, mask = ref.restore(ref.extract(weights, steps[1]), steps[1], weights)
    for n, w in weights.items():
        rest = 0.9 * (first[n] - w) - 0.1 * 0.05 * first[n] * n.endswith("kernel")
        outside = mask[n] == 0
        np.testing.assert_allclose((second[n] - first[n])[outside], rest[outside], atol=1e-12)


@NETS
def test_round_of_one_full_client(net):
    weights, client = create_weights(net), create_client(net, whole(net))
    new = ref.federated_round(net, weights, [client], **LOCAL)
    assert_same(new, ref.train(net, weights, client, **LOCAL))


@NETS
def test_round_of_equal_clients_is_one_of_them(net):
    weights, client = create_weights(net), create_client(net, KEPT[net])
    new = ref.federated_round(net, weights, [client] * 3, weighting="examples", **LOCAL)
    small = ref.train(net, ref.extract(weights, KEPT[net]), client, **LOCAL)
    inside, mask = ref.restore(small, KEPT[net], weights)
    assert_same(new, {n: inside[n] + (1 - mask[n]) * w for n, w in weights.items()})


@NETS
@pytest.mark.parametrize("weighting", ["uniform", "examples"])
def test_round_by_element(net, weighting):
    """Each element is the mean of what those who hold it have, and untouched if there is none."""
    weights, kept = create_weights(net), [KEPT[net], [ref.ordered(2, m) for m in WIDTHS[net]]]
    clients = [create_client(net, kept[0], 1), create_client(net, kept[1], 2, weight=5)]
    new = ref.federated_round(net, weights, clients, weighting, **LOCAL)
    models = [ref.train(net, ref.extract(weights, c["kept"]), c, **LOCAL) for c in clients]
    full = [ref.restore(m, k, weights) for m, k in zip(models, kept)]
    shares = [1.0, 1.0] if weighting == "uniform" else [EXAMPLES, 5]
    for n, w in weights.items():
        for i in np.ndindex(w.shape):
            held = [(c, model[n][i]) for c, (model, mask) in zip(shares, full) if mask[n][i]]
            c, values = zip(*held) if held else ([1.0], [w[i]])
            assert new[n][i] == pytest.approx(np.average(values, weights=c), abs=1e-12)
    untouched = [(1 - full[0][1][n]) * (1 - full[1][1][n]) for n in weights]
    assert sum(u.sum() for u in untouched) > 0


@NETS
def test_round_does_not_see_the_order_of_kept(net):
    weights = create_weights(net)
    clients = [create_client(net, KEPT[net], 1), create_client(net, whole(net), 2)]
    turned = [{**c, "kept": [k[::-1] for k in c["kept"]]} for c in clients]
    actual, expected = (ref.federated_round(net, weights, c, **LOCAL) for c in (turned, clients))
    assert_same(actual, expected)


@NETS
def test_float32_is_computed_in_float64(net):
    weights = {n: w.astype(np.float32) for n, w in create_weights(net).items()}
    client = create_client(net, KEPT[net])
    client["x"] = client["x"].astype(np.float32)
    precise = {n: w.astype(np.float64) for n, w in weights.items()}
    for function in (
        lambda w: ref.federated_round(net, w, [client], **LOCAL),
        lambda w: dict(enumerate(ref.scores(net, w, client["x"]))),
    ):
        actual = function(weights)
        assert all(a.dtype == np.float64 for a in actual.values())
        assert_same(actual, function(precise), atol=0)
