"""The NumPy reference has to be right before anything is held against it."""

import numpy as np
import pytest

from tests.references import layers as ref

WIDTHS = (5, 6, 4, 3)
LAYERS = len(WIDTHS) - 1
ALGORITHMS = (ref.embracing, ref.fedpmt, ref.prefix, ref.channel)
LOCAL = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}


def create_problem(sizes=(12, 7, 20), rounds=3, steps=4, seed=0):
    """Weights, clients and batches; biases are not zero, so that none of it hides in a zero."""
    rng = np.random.default_rng(seed)
    weights = []
    for m, n in zip(WIDTHS[:-1], WIDTHS[1:]):
        weights += [rng.normal(size=(m, n)), rng.normal(size=n)]
    clients = [(rng.normal(size=(n, WIDTHS[0])), rng.integers(0, WIDTHS[-1], n)) for n in sizes]
    batches = [
        [[rng.choice(n, 5, replace=False) for _ in range(steps)] for n in sizes]
        for _ in range(rounds)
    ]
    return weights, clients, batches


def numeric_gradient(weights, x, y, i, eps=1e-6):
    result = np.zeros_like(weights[i])
    for at in np.ndindex(result.shape):
        for sign in (1, -1):
            moved = [w.copy() for w in weights]
            moved[i][at] += sign * eps
            result[at] += sign * ref.loss(moved, x, y) / (2 * eps)
    return result


def assert_same(a, b, atol=0.0):
    assert len(a) == len(b)
    for u, v in zip(a, b):
        np.testing.assert_allclose(u, v, rtol=0, atol=atol)


@pytest.mark.parametrize(
    "trained", [range(3), range(1, 3), range(2, 3), range(2), range(1), [0, 2]]
)
@pytest.mark.parametrize("recorded", [True, False])
def test_gradients_match_finite_differences(trained, recorded):
    weights, ((x, y), *_), _ = create_problem()
    first = min(trained) if recorded else 0
    inputs = ref.activations(weights, x, 0, first)[-1]
    grads = ref.gradients(weights, inputs, y, trained, first)
    assert sorted(grads) == sorted(j for i in trained for j in (2 * i, 2 * i + 1))
    for i, g in grads.items():
        assert np.abs(g).max() > 1e-3
        np.testing.assert_allclose(g, numeric_gradient(weights, x, y, i), atol=1e-8)


@pytest.mark.parametrize("trained", [range(3), range(1, 3), range(1)])
@pytest.mark.parametrize("recorded", [True, False])
def test_local_steps_match_momentum_and_decay_by_hand(trained, recorded):
    weights, ((x, y), *_), batches = create_problem()
    batches, lr, momentum, decay = batches[0][0][:2], 0.05, 0.9, 0.1
    result = ref.local_round(weights, x, y, batches, lr, momentum, decay, trained, recorded)
    indices = [j for i in trained for j in (2 * i, 2 * i + 1)]

    def step_gradients(w, batch):
        grads = {i: numeric_gradient(w, x[batch], y[batch], i) for i in indices}
        return {i: g + (decay * w[i] if g.ndim == 2 else 0.0) for i, g in grads.items()}

    g0 = step_gradients(weights, batches[0])
    middle = [w - lr * g0[i] if i in g0 else w for i, w in enumerate(weights)]
    g1 = step_gradients(middle, batches[1])
    # w2 = w0 - lr * g0 - lr * (momentum * g0 + g1)
    end = [w - lr * (momentum * g0[i] + g1[i]) if i in g0 else w for i, w in enumerate(middle)]
    assert_same(result, end, atol=1e-8)
    for i, w in enumerate(weights):
        assert np.array_equal(result[i], w) == (i not in indices)


def test_aggregate_by_hand():
    weights = [np.array([[1.0, 1.0]]), np.array([1.0, 1.0])]
    client_weights = [[np.array([[2.0, 3.0]]), np.array([4.0, 4.0])], [w + 9.0 for w in weights]]
    contributions = [[1.0, 0.0], [np.array([1.0, 0.0]), 0.0]]
    kernel, bias = ref.aggregate(weights, client_weights, contributions, [1.0, 3.0])
    np.testing.assert_allclose(kernel, [[1.0 + (1.0 + 3 * 9.0) / 4, 3.0]])
    np.testing.assert_array_equal(bias, weights[1])


@pytest.mark.parametrize("by_examples", [True, False])
def test_without_cuts_all_algorithms_are_fedavg(by_examples):
    weights, clients, batches = create_problem()
    results = [
        a(weights, clients, [0, 0, 0], batches, by_examples=by_examples, **LOCAL)
        for a in ALGORITHMS
    ]
    expected, p = weights, [len(y) if by_examples else 1 for _, y in clients]
    for r in batches:
        trained = [
            ref.local_round(expected, x, y, r[k], *LOCAL.values(), range(LAYERS), False)
            for k, (x, y) in enumerate(clients)
        ]
        expected = [np.average(ws, axis=0, weights=p) for ws in zip(*trained)]
    for result in results:
        assert_same(result, results[0])
        assert_same(result, expected, atol=1e-12)


@pytest.mark.parametrize("cuts", [[0, 1, 2], [2, 2, 2], [0, 0, 1], [3, 0, 1]])
@pytest.mark.parametrize("by_examples", [True, False])
def test_embracing_equals_fedpmt(cuts, by_examples):
    # The layers a weak client leaves out do not move during its round, and a dense layer treats
    # each example alone: their output for an example is the same at every step, recorded or
    # computed again, and the gradient of the later layers depends on nothing else of them.
    # Only the order of BLAS sums may differ, with the number of rows: 1e-12 and not 0.
    weights, clients, batches = create_problem(rounds=4)
    results = [
        a(weights, clients, cuts, batches, by_examples=by_examples, **LOCAL) for a in ALGORITHMS[:2]
    ]
    assert_same(*results, atol=1e-12)
    assert not np.allclose(results[0][-2], weights[-2], atol=1e-3)


@pytest.mark.parametrize("recorded", [True, False])
def test_frozen_layers_run_once_or_at_every_step(recorded, monkeypatch):
    weights, ((x, y), *_), batches = create_problem(steps=2)
    calls, activations = [], ref.activations

    def spy(weights, inputs, first, last):
        calls.append((len(inputs), first, last))
        return activations(weights, inputs, first, last)

    monkeypatch.setattr(ref, "activations", spy)
    ref.local_round(weights, x, y, batches[0][0], *LOCAL.values(), range(2, 3), recorded)
    first = 2 if recorded else 0
    assert calls == [(12, 0, first), (5, first, 3), (5, first, 3)]


def test_algorithms_differ_with_cuts():
    weights, clients, batches = create_problem()
    suffix, _, prefix, channel = (
        a(weights, clients, [0, 1, 1], batches, **LOCAL) for a in ALGORITHMS
    )
    for a, b in [(suffix, prefix), (suffix, channel), (prefix, channel)]:
        assert all(np.abs(u - v).max() > 1e-4 for u, v in zip(a, b))


@pytest.mark.parametrize("algorithm", ALGORITHMS[:3])
@pytest.mark.parametrize("cuts", [[1, 1, 2], [2, 2, 2], [3, 3, 3], [1, 3, 3]])
def test_layer_without_contributor_stays(algorithm, cuts):
    weights, clients, batches = create_problem()
    result = algorithm(weights, clients, cuts, batches, **LOCAL)
    least, trains_prefix = min(cuts), algorithm is ref.prefix
    for i, (old, new) in enumerate(zip(weights, result)):
        stays = i // 2 >= LAYERS - least if trains_prefix else i // 2 < least
        assert np.array_equal(old, new) == stays


def test_channels_without_contributor_stay():
    weights, clients, batches = create_problem()
    weights[0], weights[1] = weights[0][:, :5], weights[1][:5]  # ceil(0.5 * 5) = 3
    weights[2] = weights[2][:5]
    result = ref.channel(weights, clients, [1, 2, 1], batches, **LOCAL)
    for i, kept in enumerate([3, 3, 2, 2, 3, 3]):
        np.testing.assert_array_equal(result[i][..., kept:], weights[i][..., kept:])
        assert (np.abs(result[i][..., :kept] - weights[i][..., :kept]) > 1e-6).all()


def test_one_strong_client_alone_moves_the_first_layer():
    weights, clients, batches = create_problem(rounds=1)
    result = ref.embracing(weights, clients, [1, 0, 2], batches, by_examples=True, **LOCAL)
    x, y = clients[1]
    alone = ref.local_round(weights, x, y, batches[0][1], *LOCAL.values(), range(LAYERS), False)
    assert_same(result[:2], alone[:2], atol=1e-12)
    assert not np.allclose(result[2], alone[2], atol=1e-4)


def test_inputs_are_left_alone_and_computed_in_float64():
    weights, clients, batches = create_problem()
    weights = [w.astype(np.float32) for w in weights]
    clients = [(x.astype(np.float32), y.astype(np.int32)) for x, y in clients]
    before = [w.copy() for w in weights]
    for algorithm in ALGORITHMS:
        result = algorithm(weights, clients, [0, 1, 2], batches, **LOCAL)
        assert all(w.dtype == np.float64 for w in result)
    assert_same(weights, before)
