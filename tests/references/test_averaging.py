"""The NumPy reference has to be right before anything is held against it.

The expected values are written out by hand, on one vector for each model, without `Network`.
"""

import numpy as np
import pytest

from tests.references import averaging as ref
from tests.references import layers as layers

SHAPES = ((4, 5), (5,), (5, 3), (3,))
SIZES = (9, 6, 12, 8)
DECAY = 0.05
LOCAL = {"momentum": 0.9, "weight_decay": DECAY}
KERNELS = np.concatenate([np.full(np.prod(s), float(len(s) == 2)) for s in SHAPES])
OWNERS = [np.array([0, 1, 2, 0, 1]), np.array([0, 1, 2, 0, 1]), np.array(2), np.array([2, 1, 0])]
AVERAGINGS = [ref.Partial(3, OWNERS), ref.Periodic(3), ref.VrlSgd(3)]
NAMES = ["partial", "periodic", "vrl_sgd"]


def create_problem(rates, n=4, seed=0):
    """Weights, clients and iterations; large biases keep every hidden unit alive."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=s) if len(s) == 2 else rng.normal(3.0, size=s) for s in SHAPES]
    clients = [(rng.normal(size=(m, 4)), rng.integers(0, 3, m)) for m in SIZES[:n]]
    iterations = [
        {
            "learning_rate": rate,
            "batches": {i: rng.choice(SIZES[i], 5, replace=False) for i in range(n)},
        }
        for rate in rates
    ]
    return weights, clients, iterations


def shares(by_examples, active):
    sizes = np.array([SIZES[i] if by_examples else 1 for i in active])
    return sizes / sum(sizes)


def flat(weights):
    return np.concatenate([np.ravel(w) for w in weights])


def structured(vector):
    parts = np.split(vector, np.cumsum([np.prod(s) for s in SHAPES])[:-1])
    return [part.reshape(s) for part, s in zip(parts, SHAPES)]


def gradient(w, client, batch, decay=DECAY):
    x, y = client
    by_index = layers.gradients(structured(w), x[batch], y[batch], range(2))
    return flat([by_index[i] for i in range(4)]) + decay * KERNELS * w


def models_of(result):
    return np.array([flat(m) for m in result["models"]])


def assert_close(a, b, atol=1e-12):
    assert np.shape(a) == np.shape(b)
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def assert_different(a, b):
    assert np.abs(np.asarray(a) - b).max() > 1e-3


@pytest.mark.parametrize("by_examples", [False, True])
@pytest.mark.parametrize(
    "averaging", [ref.Partial(1, [0] * 4), ref.Periodic(1), ref.VrlSgd(1)], ids=NAMES
)
def test_an_interval_of_one_is_synchronous_sgd(averaging, by_examples):
    weights, clients, iterations = create_problem([0.2, 0.1, 0.15, 0.3])
    results = ref.run(weights, clients, iterations, averaging, by_examples=by_examples, **LOCAL)
    p = shares(by_examples, range(4))
    x, v = flat(weights), 0.0
    for it, result in zip(iterations, results, strict=True):
        g = sum(p[i] * gradient(x, clients[i], it["batches"][i]) for i in range(4))
        v = 0.9 * v + g
        x = x - it["learning_rate"] * v
        assert_close(flat(result["mean"]), x)
        assert_close(models_of(result), np.tile(x, (4, 1)))
        assert result["discrepancy"] < 1e-24
    assert_different(x, flat(weights))


@pytest.mark.parametrize("by_examples", [False, True])
def test_a_partial_average_leaves_the_mean_unchanged(by_examples):
    weights, clients, iterations = create_problem([0.2, 0.1, 0.15, 0.3, 0.2])
    results = ref.run(weights, clients, iterations, AVERAGINGS[0], by_examples=by_examples, **LOCAL)
    p = shares(by_examples, range(4))
    x, v = np.tile(flat(weights), (4, 1)), np.zeros((4, len(KERNELS)))
    for it, result in zip(iterations, results, strict=True):
        for i in range(4):
            v[i] = 0.9 * v[i] + gradient(x[i], clients[i], it["batches"][i])
            x[i] = x[i] - it["learning_rate"] * v[i]
        assert_close(flat(result["mean"]), p @ x)
        assert_different(models_of(result), x)  # Something was averaged.
        x = models_of(result)
        assert_close(flat(result["mean"]), p @ x)


@pytest.mark.parametrize("averaging", AVERAGINGS, ids=NAMES)
def test_one_client_is_plain_sgd(averaging):
    weights, clients, iterations = create_problem([0.2, 0.1, 0.15, 0.3, 0.2])
    results = ref.run(weights, clients, iterations, averaging, active=[[2]], every=5, **LOCAL)
    x, v = flat(weights), 0.0
    for it, result in zip(iterations, results, strict=True):
        v = 0.9 * v + gradient(x, clients[2], it["batches"][2])
        x = x - it["learning_rate"] * v
        assert_close(models_of(result), [x])
        assert_close(flat(result["mean"]), x)
        assert result["discrepancy"] == 0.0


def test_parameters_agree_right_after_their_subset_was_averaged_and_not_in_between():
    weights, clients, iterations = create_problem([0.2] * 7)
    results = ref.run(weights, clients, iterations, AVERAGINGS[0], **LOCAL)
    for k, result in enumerate(results):
        for variable in range(4):
            for index in np.ndindex(SHAPES[variable]):
                values = [m[variable][index] for m in result["models"]]
                owner = 2 if variable == 2 else OWNERS[variable][index[-1]]
                if owner == k % 3:
                    assert len(set(values)) == 1
                else:
                    assert max(values) - min(values) > 1e-9


def test_a_parameter_of_no_subset_is_refused():
    for owner in (2, -1):
        with pytest.raises(ValueError, match="no subset"):
            ref.Partial(2, [0, 1, np.array([0, owner, 1]), 0])


@pytest.mark.parametrize("by_examples", [False, True])
def test_periodic_without_momentum_is_fedavg(by_examples):
    rates = [0.2] * 3 + [0.1] * 3 + [0.3] * 3
    weights, clients, iterations = create_problem(rates)
    results = ref.run(
        weights, clients, iterations, ref.Periodic(3), by_examples=by_examples, weight_decay=DECAY
    )
    p, server = shares(by_examples, range(4)), weights
    for k in range(9):
        start = k - k % 3
        local = [
            layers.local_round(
                server, *clients[i], [it["batches"][i] for it in iterations[start : k + 1]],
                rates[start], 0.0, DECAY, range(2), False,
            )
            for i in range(4)
        ]  # fmt: skip
        mean = [sum(w * v for w, v in zip(p, vs)) for vs in zip(*local)]
        if k % 3 == 2:
            server, local = mean, [mean] * 4
            assert results[k]["discrepancy"] == pytest.approx(0.0, abs=1e-24)
        else:
            assert results[k]["discrepancy"] > 1e-4
        assert_close(models_of(results[k]), [flat(m) for m in local])
        assert_close(flat(results[k]["mean"]), flat(mean))


@pytest.mark.parametrize("by_examples", [False, True])
def test_periodic_keeps_local_momentum(by_examples):
    rates = [0.2, 0.1, 0.15, 0.3, 0.2]
    weights, clients, iterations = create_problem(rates, n=2)
    results = ref.run(
        weights, clients, iterations, ref.Periodic(2), by_examples=by_examples, **LOCAL
    )
    p, q = (9 / 15, 6 / 15) if by_examples else (1 / 2, 1 / 2)
    a, b, va, vb = flat(weights), flat(weights), 0.0, 0.0
    for k, rate in enumerate(rates):
        batches = iterations[k]["batches"]
        va = 0.9 * va + gradient(a, clients[0], batches[0])
        vb = 0.9 * vb + gradient(b, clients[1], batches[1])
        a, b = a - rate * va, b - rate * vb
        if k in (1, 3):
            a = b = p * a + q * b
        assert_close(models_of(results[k]), [a, b])
    assert_different(va, vb)


@pytest.mark.parametrize("by_examples", [False, True])
@pytest.mark.parametrize("design", [1, 2])
@pytest.mark.parametrize("second", [(3, 0), (0, 1)])
@pytest.mark.parametrize("reset_momentum", [False, True])
def test_designs_by_hand(design, second, by_examples, reset_momentum):
    """Clients 0 and 1 for two iterations, then the second pair; three subsets, never restarted."""
    rates = [0.2, 0.1, 0.15, 0.3]
    weights, clients, iterations = create_problem(rates)
    results = ref.run(
        weights, clients, iterations, AVERAGINGS[0], active=[[0, 1], list(second)], every=2,
        design=design, by_examples=by_examples, reset_momentum=reset_momentum, **LOCAL,
    )  # fmt: skip
    owners = np.concatenate(
        [np.tile([0, 1, 2, 0, 1], 4), [0, 1, 2, 0, 1], np.full(15, 2), [2, 1, 0]]
    )

    def iteration(k, i, j, a, b, va, vb):
        batches, (p, q) = iterations[k]["batches"], shares(by_examples, (i, j))
        va = 0.9 * va + gradient(a, clients[i], batches[i])
        vb = 0.9 * vb + gradient(b, clients[j], batches[j])
        a, b = a - rates[k] * va, b - rates[k] * vb
        mean = p * a + q * b
        a = np.where(owners == (0, 1, 2, 0)[k], mean, a)
        b = np.where(owners == (0, 1, 2, 0)[k], mean, b)
        assert_close(models_of(results[k]), [a, b])
        assert_close(flat(results[k]["mean"]), mean)
        return a, b, va, vb

    a, b, va, vb = iteration(0, 0, 1, flat(weights), flat(weights), 0.0, 0.0)
    a, b, va, vb = iteration(1, 0, 1, a, b, va, vb)
    assert_different(a, b)
    if design == 1:
        a = b = (9 * a + 6 * b) / 15 if by_examples else (a + b) / 2
    if reset_momentum:
        va = vb = 0.0
    a, b, va, vb = iteration(2, *second, a, b, va, vb)
    iteration(3, *second, a, b, va, vb)


def test_the_number_of_active_clients_may_change_in_design_1_only():
    weights, clients, iterations = create_problem([0.2, 0.1])
    args = (weights, clients, iterations, ref.Periodic(3), [[1], [0, 3]], 1)
    first, second = ref.run(*args, design=1)
    start = flat(first["mean"])
    expected = [
        start - 0.1 * gradient(start, clients[i], iterations[1]["batches"][i], decay=0.0)
        for i in (0, 3)
    ]
    assert_close(models_of(second), expected)
    with pytest.raises(ValueError, match="as many"):
        ref.run(*args, design=2)


@pytest.mark.parametrize("by_examples", [False, True])
def test_discrepancy_by_hand(by_examples):
    weights, clients, iterations = create_problem([0.2, 0.1], n=2)
    for averaging in (AVERAGINGS[0], ref.Periodic(3)):
        for result in ref.run(weights, clients, iterations, averaging, by_examples=by_examples):
            a, b = models_of(result)
            p, q = (9 / 15, 6 / 15) if by_examples else (1 / 2, 1 / 2)
            mean = p * a + q * b
            expected = p * np.sum((a - mean) ** 2) + q * np.sum((b - mean) ** 2)
            assert expected > 1e-4
            assert result["discrepancy"] == pytest.approx(expected, rel=1e-9)
            # Of two points: the same number without a mean.
            assert result["discrepancy"] == pytest.approx(p * q * np.sum((a - b) ** 2), rel=1e-9)


def test_vrl_sgd_on_the_same_data_is_periodic():
    rates = [0.2, 0.1, 0.15, 0.3, 0.2, 0.1, 0.2]
    weights, clients, iterations = create_problem(rates)
    same = [clients[0]] * 4
    shared = [{**it, "batches": dict.fromkeys(range(4), it["batches"][0])} for it in iterations]
    for problem, equal in (((same, shared), True), ((clients, iterations), False)):
        a, b = (ref.run(weights, *problem, c(3), **LOCAL)[-1] for c in (ref.Periodic, ref.VrlSgd))
        assert np.allclose(models_of(a), models_of(b), rtol=0, atol=1e-10) == equal


@pytest.mark.parametrize("by_examples", [False, True])
def test_vrl_sgd_by_hand(by_examples):
    """Three clients, two at a time for two iterations each, an interval of 2."""
    rates = [0.2, 0.1, 0.15, 0.3, 0.2, 0.1, 0.2, 0.1]
    weights, clients, iterations = create_problem(rates, n=3)
    active = [[0, 1], [2, 1], [1, 0], [0, 2]]
    results = ref.run(
        weights, clients, iterations, ref.VrlSgd(2), active=active, every=2, design=2,
        by_examples=by_examples, **LOCAL,
    )  # fmt: skip
    x, v, delta = flat(weights), [0.0, 0.0], {0: 0.0, 1: 0.0, 2: 0.0}
    for period, pair in enumerate(active):
        local = [x, x]
        for k in (2 * period, 2 * period + 1):
            for slot, i in enumerate(pair):
                g = gradient(local[slot], clients[i], iterations[k]["batches"][i])
                v[slot] = 0.9 * v[slot] + g - 0.1 * delta[i]
                local[slot] = local[slot] - rates[k] * v[slot]
        p = shares(by_examples, pair)
        x = p[0] * local[0] + p[1] * local[1]
        for slot, i in enumerate(pair):
            delta[i] = 0.1 * (delta[i] + (x - local[slot]) / (2 * rates[k]))
        assert_close(models_of(results[k]), [x, x])
    assert_different(delta[0], delta[1])


def test_vrl_sgd_estimates_the_gradients_distance_from_the_mean_with_momentum():
    """What the factors 1 - momentum are for: with linear losses delta is exactly that."""
    mu, tau, rate, slopes = 0.9, 4, 0.1, np.array([1.0, -2.0, 4.0])
    x, v, delta = np.zeros(3), np.zeros(3), np.zeros(3)
    for _ in range(60):
        for _ in range(tau):
            v = mu * v + slopes - (1 - mu) * delta
            x = x - rate * v
        delta = (1 - mu) * (delta + (x.mean() - x) / (tau * rate))
        x = np.full(3, x.mean())
    np.testing.assert_allclose(delta, slopes - slopes.mean(), atol=1e-6)


def test_vrl_sgd_ends_where_the_mean_loss_is_stationary_and_periodic_does_not():
    """On full batches, with one convex layer; it is what the correction is for."""
    weights, clients, _ = create_problem([])
    weights = [weights[0][:, :3], np.zeros(3)]
    full = {"learning_rate": 0.2, "batches": {i: np.arange(n) for i, n in enumerate(SIZES)}}
    p, norms = shares(True, range(4)), {}
    for kind in (ref.Periodic, ref.VrlSgd):
        results = ref.run(weights, clients, [full] * 600, kind(4), by_examples=True)
        w = results[-1]["mean"]
        g = [layers.gradients(w, *client, range(1)) for client in clients]
        total = sum(s * flat([d[0], d[1]]) for s, d in zip(p, g))
        norms[kind] = np.linalg.norm(total)
    assert norms[ref.VrlSgd] < 1e-4 < 1e-2 < norms[ref.Periodic]


def test_arguments():
    problem = (*create_problem([0.1]), ref.Periodic(2))
    for wrong in ({"active": [[0]]}, {"every": 2}, {"design": 3}):
        with pytest.raises(ValueError, match="belong together"):
            ref.run(*problem, **wrong)
    assert [len(r["models"]) for r in ref.run(*problem)] == [4]
