"""The NumPy reference has to be right before anything is held against it.

The expected values are written out by hand, on one vector for each model, without `Network`.
"""

import numpy as np
import pytest

from tests.references import layers as layers
from tests.references import stateful as ref

WIDTHS = (4, 5, 3)
SIZES = (9, 7, 12, 8)
N = len(SIZES)
STEPS = (2, 3, 1, 4)  # Local steps of each client: K is its own.
LOCAL = {"momentum": 0.9, "weight_decay": 0.05, "clip_norm": 2.0}
ALGORITHMS = {
    ref.fedprox: {"mu": 0.4},
    ref.scaffold: {},
    ref.feddyn: {"alpha": 0.3},
    ref.feddc: {"alpha": 0.3},
    ref.fedumf: {"alpha": 0.7},
    ref.fedumf_feddc: {"fusion": 0.7, "alpha": 0.3},
}
PAIRS = (ref.feddyn, ref.feddc, ref.fedumf_feddc)


def create_problem(selections, rates=(0.2, 0.15, 0.1, 0.3), steps=STEPS, seed=0):
    """Weights, clients and rounds; biases are not zero, so that none of it hides in a zero."""
    rng = np.random.default_rng(seed)
    weights = []
    for m, n in zip(WIDTHS[:-1], WIDTHS[1:]):
        weights += [rng.normal(size=(m, n)), rng.normal(size=n)]
    clients = [(rng.normal(size=(n, WIDTHS[0])), rng.integers(0, WIDTHS[-1], n)) for n in SIZES]
    rounds = [
        {
            "selected": selected,
            "learning_rate": rate,
            "batches": [
                [rng.choice(n, 5, replace=False) for _ in range(k)] for n, k in zip(SIZES, steps)
            ],
        }
        for selected, rate in zip(selections, rates)
    ]
    return weights, clients, rounds


def flat(weights):
    return np.concatenate([w.ravel() for w in weights])


def structured(vector):
    a, b, c = WIDTHS
    ends = np.cumsum([a * b, b, b * c])
    k0, b0, k1, b1 = np.split(vector, ends)
    return [k0.reshape(a, b), b0, k1.reshape(b, c), b1]


def gradient(w, client, batch):
    by_index = layers.gradients(
        structured(w), client[0][batch], client[1][batch], range(len(WIDTHS) - 1)
    )
    return flat([by_index[i] for i in sorted(by_index)])


def server_models(algorithm, *args, **options):
    """The server's models as vectors."""
    result = algorithm(*args, **options)
    return [flat(r[0] if algorithm in PAIRS else r) for r in result]


def plain_averaging(weights, clients, rounds, momentum=0.0, weight_decay=0.0):
    """FedAvg with a uniform mean, by the local training of `reference_layers`."""
    results = []
    for r in rounds:
        trained = [
            layers.local_round(
                weights, *clients[i], r["batches"][i], r["learning_rate"], momentum, weight_decay,
                range(len(WIDTHS) - 1), False,
            )
            for i in r["selected"]
        ]  # fmt: skip
        weights = [np.mean(ws, axis=0) for ws in zip(*trained)]
        results.append(flat(weights))
    return results


def assert_close(a, b, atol=1e-12):
    assert np.shape(a) == np.shape(b)
    np.testing.assert_allclose(a, b, rtol=0, atol=atol)


def assert_differs(a, b):
    assert np.abs(np.subtract(a, b)).max() > 1e-3


PARTIAL = [[0, 2], [1, 2], [3, 0, 1], [0, 2]]
FIXED = [[2, 0]] * 4
ALL = [[0, 1, 2, 3]] * 4


@pytest.mark.parametrize("clip_norm", [None, 0.5, 1e6])
@pytest.mark.parametrize("decay_on", ["kernels", "all"])
def test_local_steps_by_finite_differences(clip_norm, decay_on):
    # Client 0, two steps, with momentum, a proximal term, and decay: of kernels before clipping,
    # or of everything after it.
    weights, clients, rounds = create_problem([[0]])
    (x, y), lr, mu, decay = clients[0], 0.2, 0.4, 0.3
    kernels = flat([np.full(w.shape, float(w.ndim == 2)) for w in weights])
    start = flat(weights)

    def step_gradient(w, batch):
        g = np.zeros_like(w)
        for at in range(len(w)):
            up, down = w.copy(), w.copy()
            up[at] += 1e-6
            down[at] -= 1e-6
            rise = layers.loss(structured(up), x[batch], y[batch])
            g[at] = (rise - layers.loss(structured(down), x[batch], y[batch])) / 2e-6
        g = g + mu * (w - start)
        if decay_on == "kernels":
            g = g + decay * kernels * w
        if clip_norm is not None:
            g = g * min(1.0, clip_norm / np.sqrt((g * g).sum()))
        return g if decay_on == "kernels" else g + decay * w

    first, second = rounds[0]["batches"][0]
    g0 = step_gradient(start, first)
    middle = start - lr * g0
    end = middle - lr * (0.9 * g0 + step_gradient(middle, second))
    local = {"momentum": 0.9, "weight_decay": decay, "clip_norm": clip_norm}
    local["weight_decay_on"] = decay_on
    assert_close(server_models(ref.fedprox, weights, clients, rounds, mu=mu, **local)[0], end, 1e-7)
    if clip_norm == 0.5:  # Both were longer: the steps have the length of the clipped ones.
        middle = middle + lr * decay * start if decay_on == "all" else middle
        np.testing.assert_allclose(np.linalg.norm(middle - start), lr * 0.5)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(
    ("algorithm", "own"), [(ref.fedprox, {"mu": 0.0}), (ref.fedumf, {"alpha": 0.0})]
)
def test_plain_averaging_at_zero(algorithm, own, momentum):
    problem, local = create_problem(PARTIAL), {"momentum": momentum, "weight_decay": 0.05}
    expected = plain_averaging(*problem, **local)
    assert_close(server_models(algorithm, *problem, **own, **local), expected)
    own = dict.fromkeys(own, 0.5)
    assert_differs(server_models(algorithm, *problem, **own, **local)[1], expected[1])


@pytest.mark.parametrize("algorithm", [ref.scaffold, ref.fedumf])
def test_first_round_is_plain_averaging(algorithm):
    problem, local = create_problem(PARTIAL), {"momentum": 0.9, "weight_decay": 0.05}
    result = server_models(algorithm, *problem, **ALGORITHMS[algorithm], **local)
    expected = plain_averaging(*problem, **local)
    assert_close(result[0], expected[0])
    assert_differs(result[1], expected[1])


@pytest.mark.parametrize("selections", [FIXED, ALL])
def test_fedumf_with_the_same_clients_is_plain_averaging(selections):
    problem, local = create_problem(selections), {"momentum": 0.9, "weight_decay": 0.05}
    expected = plain_averaging(*problem, **local)
    assert_close(server_models(ref.fedumf, *problem, alpha=0.7, **local), expected)


def test_scaffold_alone_is_plain_sgd():
    # With a population of one, c = c_i.
    weights, clients, rounds = create_problem([[0]] * 4)
    result = server_models(ref.scaffold, weights, clients[:1], rounds, momentum=0.9)
    assert_close(result, plain_averaging(weights, clients[:1], rounds, momentum=0.9))


def test_scaffold_with_one_step_of_everybody_is_plain_averaging():
    # The mean of c - c_i over all clients is 0, and it enters once, linearly.
    problem = create_problem(ALL, steps=[1] * N)
    assert_close(server_models(ref.scaffold, *problem), plain_averaging(*problem))
    problem = create_problem(ALL)
    assert_differs(server_models(ref.scaffold, *problem)[1], plain_averaging(*problem)[1])


def test_scaffold_variates_by_hand():
    # After a round of plain SGD, c_i is the mean of the gradients that client i has met.
    weights, clients, rounds = create_problem([[0, 2], [2], [1]])
    r0, r1, r2 = rounds
    x0 = flat(weights)
    g0 = gradient(x0, clients[0], r0["batches"][0][0])
    w = x0 - 0.2 * g0
    g1 = gradient(w, clients[0], r0["batches"][0][1])
    g2 = gradient(x0, clients[2], r0["batches"][2][0])
    x1 = ((w - 0.2 * g1) + (x0 - 0.2 * g2)) / 2
    c_0, c_2 = (g0 + g1) / 2, g2
    c = (c_0 + c_2) / N
    g = gradient(x1, clients[2], r1["batches"][2][0])
    x2 = x1 - 0.15 * (g + c - c_2)
    # c_2 - c + (x1 - x2) / 0.15 is the plain gradient again.
    c = (c_0 + g) / N
    x3 = x2
    for batch in r2["batches"][1]:
        x3 = x3 - 0.1 * (gradient(x3, clients[1], batch) + c)
    assert_close(server_models(ref.scaffold, weights, clients, rounds), [x1, x2, x3])


def local_steps(w, client, r, i, own):
    """SGD without momentum; own(w) is added to the gradient."""
    for batch in r["batches"][i]:
        w = w - r["learning_rate"] * (gradient(w, client, batch) + own(w))
    return w


def test_fedprox_by_hand():
    weights, clients, rounds = create_problem([[0, 1]])
    x0 = flat(weights)
    y = [local_steps(x0, clients[i], rounds[0], i, lambda w: 0.4 * (w - x0)) for i in (0, 1)]
    result = server_models(ref.fedprox, weights, clients, rounds, mu=0.4)
    assert_close(result, [(y[0] + y[1]) / 2])


def test_feddyn_by_hand():
    # First 0 and 1, then 0 and 3; 2 never trains.
    alpha = 0.3
    weights, clients, (r0, r1) = create_problem([[0, 1], [3, 0]])
    x0 = flat(weights)
    y0, y1 = (local_steps(x0, clients[i], r0, i, lambda w: alpha * (w - x0)) for i in (0, 1))
    x1 = (y0 + y1) / 2 + (y0 - x0 + y1 - x0) / N
    all1 = (y0 + y1 + x0 + x0) / N
    z0 = local_steps(x1, clients[0], r1, 0, lambda w: alpha * (w - x1) + alpha * (y0 - x0))
    z3 = local_steps(x1, clients[3], r1, 3, lambda w: alpha * (w - x1))
    x2 = (z0 + z3) / 2 + (y0 - x0 + y1 - x0 + z0 - x1 + z3 - x1) / N
    all2 = (z0 + y1 + x0 + z3) / N
    result = ref.feddyn(weights, clients, [r0, r1], alpha=alpha)
    assert_close([flat(server) for server, _ in result], [x1, x2])
    assert_close([flat(mean) for _, mean in result], [all1, all2])


@pytest.mark.parametrize("fusion", [None, 0.7])
def test_feddc_by_hand(fusion):
    # First 0 and 1, then 0 and 3, then these three; 2 never uploads. With fusion, 3 in the second
    # round and 1 in the third start from the update that they have not sent.
    alpha, share = 0.3, 0.0 if fusion is None else fusion
    weights, clients, rounds = create_problem([[0, 1], [3, 0], [1, 3, 0]])
    (r0, r1, r2), (k0, k1, _, k3) = rounds, STEPS

    x0 = flat(weights)
    y0, y1, y3 = (local_steps(x0, clients[i], r0, i, lambda w: alpha * (w - x0)) for i in (0, 1, 3))
    h0, h1 = y0 - x0, y1 - x0
    c0, c1 = (x0 - y0) / (k0 * 0.2), (x0 - y1) / (k1 * 0.2)
    c = (c0 + c1) / N
    x1 = (y0 + y1) / 2 + (h0 + h1) / N
    all1 = (y0 + y1 + x0 + x0) / N

    start3 = x1 + share * 0.15 / 0.2 * (y3 - x0)
    z0 = local_steps(x1, clients[0], r1, 0, lambda w: alpha * (w - x1 + h0) + c - c0)
    z1 = local_steps(x1, clients[1], r1, 1, lambda w: alpha * (w - x1 + h1) + c - c1)
    z3 = local_steps(start3, clients[3], r1, 3, lambda w: alpha * (w - x1) + c)
    x2 = (z0 + z3) / 2 + (h0 + z0 - x1 + h1 + z3 - x1) / N
    all2 = (z0 + y1 + x0 + z3) / N
    c0_new, c3_new = c0 - c + (x1 - z0) / (k0 * 0.15), -c + (start3 - z3) / (k3 * 0.15)
    c_new = (c0_new + c1 + c3_new) / N
    h0, h3 = h0 + z0 - x1, z3 - x1

    start1 = x2 + share * 0.1 / 0.15 * (z1 - x1)
    u0 = local_steps(x2, clients[0], r2, 0, lambda w: alpha * (w - x2 + h0) + c_new - c0_new)
    u1 = local_steps(start1, clients[1], r2, 1, lambda w: alpha * (w - x2 + h1) + c_new - c1)
    u3 = local_steps(x2, clients[3], r2, 3, lambda w: alpha * (w - x2 + h3) + c_new - c3_new)
    x3 = (u0 + u1 + u3) / 3 + (h0 + u0 - x2 + h1 + u1 - x2 + h3 + u3 - x2) / N
    all3 = (u0 + u1 + x0 + u3) / N

    if fusion is None:
        result = ref.feddc(weights, clients, rounds, alpha=alpha)
    else:
        result = ref.fedumf_feddc(weights, clients, rounds, fusion=fusion, alpha=alpha)
    assert_close([flat(server) for server, _ in result], [x1, x2, x3])
    assert_close([flat(mean) for _, mean in result], [all1, all2, all3])


def test_fedumf_by_hand():
    # Client 1 waits two rounds: only its update of the second counts. Client 0 waits none in the
    # second round, one before the last.
    weights, clients, rounds = create_problem([[0], [2, 0], [1], [0, 1]], steps=[1] * N)
    x0 = flat(weights)

    def step(w, i, t):
        g = gradient(w, clients[i], rounds[t]["batches"][i][0])
        return w - rounds[t]["learning_rate"] * g

    x1 = step(x0, 0, 0)
    x2 = (step(x1, 0, 1) + step(x1 + 0.7 * 0.15 / 0.2 * (step(x0, 2, 0) - x0), 2, 1)) / 2
    x3 = step(x2 + 0.7 * 0.1 / 0.15 * (step(x1, 1, 1) - x1), 1, 2)
    x4 = (step(x3 + 0.7 * 0.3 / 0.1 * (step(x2, 0, 2) - x2), 0, 3) + step(x3, 1, 3)) / 2
    assert_close(server_models(ref.fedumf, weights, clients, rounds, alpha=0.7), [x1, x2, x3, x4])


@pytest.mark.parametrize(
    ("selections", "fusion", "same"),
    [(PARTIAL, 0.0, True), (FIXED, 0.7, True), (ALL, 0.7, True), (PARTIAL, 0.7, False)],
)
def test_fedumf_feddc_without_fusion_is_feddc(selections, fusion, same):
    # The clients that are not selected train as well, but leave no trace.
    problem = create_problem(selections)
    expected = ref.feddc(*problem, alpha=0.3, **LOCAL)
    result = ref.fedumf_feddc(*problem, fusion=fusion, alpha=0.3, **LOCAL)
    for kind in (0, 1):  # The server's models, the means over all clients.
        a, b = ([flat(pair[kind]) for pair in models] for models in (result, expected))
        (assert_close if same else assert_differs)(a, b)


@pytest.mark.parametrize("algorithm", PAIRS)
def test_mean_over_all_counts_uploads_only(algorithm):
    # Client 3 never uploads, client 1 last in the first round.
    problem = create_problem([[0, 1], [2], [2, 0]])
    options = {**ALGORITHMS[algorithm], **LOCAL}
    x0 = flat(problem[0])
    result = [[flat(w) for w in pair] for pair in algorithm(*problem, **options)]
    (x1, all1), (x2, all2), _ = result
    # 2 and 3 still have the initial model, so that all1 gives away the mean of y_0 and y_1.
    mean_y = (N * all1 - 2 * x0) / 2
    assert_close(x1, mean_y + 2 * (mean_y - x0) / N)
    # Client 2 alone replaces its initial model in the second round.
    y2 = x0 + N * (all2 - all1)
    assert_close(x2, y2 + (2 * (mean_y - x0) + y2 - x1) / N)


def test_uploading_clients_alone_need_batches():
    # Where only the selected train, `batches` may be a dict of theirs.
    for selections in (PARTIAL, FIXED):
        weights, clients, rounds = create_problem(selections)
        fewer = [{**r, "batches": {i: r["batches"][i] for i in r["selected"]}} for r in rounds]
        for algorithm in (ref.fedprox, ref.scaffold, ref.feddyn, ref.feddc):
            options = {**ALGORITHMS[algorithm], **LOCAL}
            expected = server_models(algorithm, weights, clients, rounds, **options)
            result = server_models(algorithm, weights, clients, fewer, **options)
            assert_close(result, expected, atol=0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_corrections_lead_to_the_minimum(algorithm):
    # One dense layer with weight decay is convex. Several full-batch steps on clients of different
    # data leave averages off the minimum of the mean loss; the corrections' only fixed points are
    # there, with a part of the clients too. A wrong sign anywhere diverges or ends elsewhere.
    rng = np.random.default_rng(0)
    clients = [
        (rng.normal(size=(6, 3)) + k, np.minimum(rng.integers(0, 3, 6), k)) for k in (0, 1, 2)
    ]
    weights = [rng.normal(size=(3, 3)), rng.normal(size=3)]
    rounds = [
        {
            "selected": rng.choice(3, 2, replace=False),
            "learning_rate": 0.2,
            "batches": [[np.arange(6)] * k for k in (3, 4, 5)],
        }
        for _ in range(300)
    ]

    def slope(model):
        by_client = [layers.gradients(model, *client, [0]) for client in clients]
        kernel, bias = (np.mean([g[i] for g in by_client], axis=0) for i in (0, 1))
        return np.linalg.norm(flat([kernel + 0.1 * model[0], bias]))

    result = algorithm(weights, clients, rounds, weight_decay=0.1, **ALGORITHMS[algorithm])
    models = [r[0] if algorithm in PAIRS else r for r in result]
    last = [slope(model) for model in models[-20:]]
    if algorithm in (ref.fedprox, ref.fedumf):
        assert 0.05 < max(last) < 1.0
    else:
        assert max(last) < 0.01
        if algorithm in PAIRS:
            assert slope(result[-1][1]) < 0.01


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_inputs_are_left_alone_and_computed_in_float64(algorithm):
    weights, clients, rounds = create_problem(PARTIAL)
    weights = [w.astype(np.float32) for w in weights]
    clients = [(x.astype(np.float32), y.astype(np.int32)) for x, y in clients]
    before = [w.copy() for w in weights]
    result = algorithm(weights, clients, rounds, **ALGORITHMS[algorithm], **LOCAL)
    assert len(result) == len(rounds)
    for models in result:
        for model in models if algorithm in PAIRS else [models]:
            assert [w.shape for w in model] == [w.shape for w in weights]
            assert all(w.dtype == np.float64 for w in model)
    assert_close(flat(weights), flat(before), atol=0)


def test_fednova_counts_each_update_per_step():
    weights, clients, rounds = create_problem([[0, 1]], rates=(0.2,))
    (x,) = server_models(ref.fednova, weights, clients, rounds)
    start, deltas = flat(weights), []
    for i in (0, 1):  # two and three steps
        w = start
        for batch in rounds[0]["batches"][i]:
            w = w - 0.2 * gradient(w, clients[i], batch)
        deltas.append((w - start) / STEPS[i])
    expected = start + (STEPS[0] + STEPS[1]) / 2 * (deltas[0] + deltas[1]) / 2
    np.testing.assert_allclose(x, expected, rtol=1e-10)
