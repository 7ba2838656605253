"""Partial and periodic averaging and VRL-SGD against a NumPy reference, and their subsets."""

import functools
import math

import numpy as np
import pytest
import tensorflow as tf

import models
from tests import tiny
from tests.experiments.rounds import Data, evaluate
from tests.processes.test_stateful import batches
from tests.references import averaging as reference
from tff_partial import tiers
from tff_partial.algorithms import registry
from tff_partial.core import model as model_spec
from tff_partial.core.local_training import LocalTraining
from tff_partial.experiments import callbacks, loop, participation
from tff_partial.processes import parameter_subsets

TAU = 3
SIZES = (12, 7, 20)
SHAPES = [(5, 4), (4,), (4, 3), (3,)]
LAYERS = [0, 0, 1, 1]
NAMES = ("partial_averaging", "periodic_averaging", "vrl_sgd")


def local(**changes):
    settings = {"steps": TAU, "batch_size": 4, "learning_rate": 0.3, "momentum": 0.6}
    return LocalTraining(**{**settings, "weight_decay": 0.02, **changes})


def owners(partition, shapes, layers, tau):
    if partition == "layer":
        return parameter_subsets.by_layer(shapes, layers, tau)
    return parameter_subsets.by_channel(shapes, tau)


def averaging(name, partition="channel"):
    if name == "partial_averaging":
        return reference.Partial(TAU, owners(partition, SHAPES, LAYERS, TAU))
    return {"periodic_averaging": reference.Periodic, "vrl_sgd": reference.VrlSgd}[name](TAU)


def iterations(data, rounds, learning, rates):
    cohort = tiny.cohort(data)
    drawn = [[batches(record, t, learning) for record in cohort] for t in range(rounds)]
    return [
        {
            "learning_rate": rates[k],
            "batches": {i: drawn[k // TAU][i][k % TAU] for i in range(len(data))},
        }
        for k in range(rounds * TAU)
    ]


def split(vector):
    parts = np.split(vector, np.cumsum([math.prod(s) for s in SHAPES])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, SHAPES)]


def assert_round(running, wanted):
    for a, b in zip(running.weights(), wanted["mean"]):
        np.testing.assert_allclose(a, b, atol=1e-6)
    for client, model in enumerate(wanted["models"]):
        for a, b in zip(split(running.kept(client)["parameters"]), model):
            np.testing.assert_allclose(a, b, atol=1e-6)
    found = float(running.metrics[-1]["discrepancy"])
    assert found == pytest.approx(wanted["discrepancy"], rel=1e-4, abs=1e-9)
    before = float(running.metrics[-1]["discrepancy_before"])
    assert before == pytest.approx(wanted["before"], rel=1e-4, abs=1e-9)
    assert before > 1e-4


@pytest.mark.parametrize("in_steps", [False, True])
@pytest.mark.parametrize("weighting", ["uniform", "examples"])
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("partial_averaging", {"partition": "channel"}),
        ("partial_averaging", {"partition": "layer"}),
        ("periodic_averaging", {}),
    ],
)
def test_equals_numpy(name, params, weighting, in_steps):
    data = tiny.client_data(SIZES)
    process = tiny.build(name, local(), weighting=weighting, **params)
    running = tiny.Rounds(process.in_steps() if in_steps else process, data)
    wanted = reference.run(
        running.weights(),
        data,
        iterations(data, 3, local(), [0.3] * 9),
        averaging(name, **params),
        by_examples=weighting == "examples",
        momentum=0.6,
        weight_decay=0.02,
    )
    for t in range(3):
        running.next()
        assert_round(running, wanted[t * TAU + TAU - 1])
    if name == "partial_averaging":
        assert float(running.metrics[-1]["discrepancy"]) > 1e-4


def test_in_steps_clients_may_come_back_in_another_order(monkeypatch):
    """As from several workers: states and data stay together, and `next` is left alone."""
    data, process = tiny.client_data(SIZES), tiny.build("partial_averaging", local())
    expected = tiny.Rounds(process, data)
    in_steps = process.in_steps()
    for name in ("advance", "finish"):
        computation = getattr(process._steps, name)
        monkeypatch.setattr(
            process._steps, name, lambda *args, c=computation: reverse_last(c(*args))
        )
    running = tiny.Rounds(in_steps, data)
    for _ in range(2):
        running.next()
        expected.next()
    for client in range(3):
        for a, b in zip(tiny.flat(running.kept(client)), tiny.flat(expected.kept(client))):
            np.testing.assert_allclose(a, b, atol=1e-6)


def reverse_last(results):
    *others, clients = results
    return (*others, clients[::-1])


@pytest.mark.parametrize("name", NAMES)
def test_equals_numpy_with_a_rate_that_warms_up_and_changes_within_a_round(name):
    data, learning = tiny.client_data(SIZES), local(learning_rate="0.3~2,1.4:0.1", momentum=0.0)
    rates = [0.05, 0.1, 0.15, 0.2, 0.25, 0.1, 0.1, 0.1, 0.1]
    running = tiny.Rounds(tiny.build(name, learning), data)
    wanted = reference.run(
        running.weights(),
        data,
        iterations(data, 3, learning, rates),
        averaging(name),
        weight_decay=0.02,
    )
    for t in range(3):
        running.next()
        assert_round(running, wanted[t * TAU + TAU - 1])


@pytest.mark.parametrize("design", [1, 2])
@pytest.mark.parametrize(
    ("name", "reset_momentum"),
    [
        ("partial_averaging", False),
        ("partial_averaging", True),
        ("periodic_averaging", False),
        ("vrl_sgd", False),
    ],
)
def test_other_clients_become_active(name, reset_momentum, design, tmp_path):
    """Four clients, two at a time, for two rounds each, through the loop and its store."""
    data = Data(4)
    arrays = [data.client(i) for i in range(4)]
    process = tiny.build(
        name,
        local(),
        population=4,
        active=2,
        rounds_active=2,
        design=design,
        reset_momentum=reset_momentum,
    )
    initial = tiny.flat(process.get_model_weights(process.initialize()))
    options = loop.LoopOptions(rounds=6, clients_per_round=2, seed=0)
    active = [participation.sample_clients(4, 2, period, 0).tolist() for period in range(3)]
    assert len({tuple(ids) for ids in active}) > 1
    found = loop.train(process, data, evaluate, options, str(tmp_path))
    wanted = reference.run(
        initial,
        arrays,
        iterations(arrays, 6, local(), [0.3] * 18),
        averaging(name),
        active=active,
        every=2 * TAU,
        design=design,
        momentum=0.6,
        weight_decay=0.02,
        reset_momentum=reset_momentum,
    )
    for a, b in zip(tiny.flat(found), wanted[-1]["mean"]):
        np.testing.assert_allclose(a, b, atol=2e-6)
    kept = {int(p.name.split(".")[0]) for p in tmp_path.glob("client_states/*/*.npz")}
    everybody = {i for ids in active for i in ids}
    assert kept == (everybody if name == "vrl_sgd" else set(active[-1]))


def kept_by(folder, client):
    """What a client keeps after the last round of a run."""
    [path] = folder.glob(f"client_states/*/{client}.*.npz")
    with np.load(path) as file:
        return {name.rpartition("/")[2]: file[name] for name in file.files}


def test_who_is_late_when_becoming_active_still_takes_over(tmp_path):
    """Design 2: the model and momentum of its predecessor, not the initial ones."""
    process = tiny.build(
        "partial_averaging", local(), population=4, active=2, rounds_active=2, design=2
    )
    old, new = (participation.sample_clients(4, 2, period, 0).tolist() for period in range(2))
    slot = next(s for s in range(2) if new[s] not in old)

    class Late(callbacks.Callback):
        def on_cohort(self, round_num, clients):
            return [i for i in clients if round_num < 2 or i != new[slot]]

    for rounds in (2, 3):
        options = loop.LoopOptions(rounds=rounds, clients_per_round=2, seed=0)
        folder = str(tmp_path / str(rounds))
        loop.train(process, Data(4), evaluate, options, folder, callbacks=[Late()])
    predecessor, late = kept_by(tmp_path / "2", old[slot]), kept_by(tmp_path / "3", new[slot])
    initial = process.initial_client_state()["parameters"]
    assert not np.allclose(late["parameters"], initial, atol=1e-3)
    assert np.abs(late["momentum"]).max() > 0
    for name in ("parameters", "momentum"):
        np.testing.assert_array_equal(late[name], predecessor[name])


def test_a_round_that_fails_hands_nothing_over(tmp_path):
    """Late in the last round of a period, and the next round fails: resumed as if it had not."""

    def create():
        params = {"population": 4, "active": 2, "rounds_active": 2, "design": 2}
        return tiny.build("partial_averaging", local(), **params)

    old, new = (participation.sample_clients(4, 2, period, 0).tolist() for period in range(2))
    late = next(i for i in old if i not in new)

    class Late(callbacks.Callback):
        def on_cohort(self, round_num, clients):
            return [i for i in clients if round_num != 1 or i != late]

    options = loop.LoopOptions(rounds=4, clients_per_round=2, seed=0)
    run = functools.partial(loop.train, data=Data(4), evaluate=evaluate, options=options)
    wanted = run(create(), output_dir=str(tmp_path / "whole"), callbacks=[Late()])
    process = create()
    succeeds = process.next

    def fails(state, *arguments):
        if int(state.client_work) == 2:
            raise RuntimeError("a worker is lost")
        return succeeds(state, *arguments)

    process.next = fails
    with pytest.raises(RuntimeError, match="lost"):
        run(process, output_dir=str(tmp_path / "failed"), callbacks=[Late()])
    found = run(create(), output_dir=str(tmp_path / "failed"), callbacks=[Late()])
    for a, b in zip(tiny.flat(found), tiny.flat(wanted)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("design", [1, 2])
def test_who_trained_nothing_hands_over_the_average(design):
    process = tiny.build(
        "partial_averaging", local(), population=4, active=2, rounds_active=2, design=design
    )
    running = tiny.Rounds(process, tiny.client_data(SIZES))
    running.next()
    value = process.hand_over(running.state, process.initial_client_state(), None)
    np.testing.assert_array_equal(
        value["parameters"], np.concatenate([w.reshape(-1) for w in running.weights()])
    )
    assert not np.any(value["momentum"])


def test_vrl_sgd_differs_from_periodic_averaging_where_clients_change(tmp_path):
    found = {}
    for name in ("vrl_sgd", "periodic_averaging"):
        process = tiny.build(name, local(), population=4, active=2)
        options = loop.LoopOptions(rounds=5, clients_per_round=2, seed=0)
        weights = loop.train(process, Data(4), evaluate, options, str(tmp_path / name))
        found[name] = np.concatenate([w.reshape(-1) for w in tiny.flat(weights)])
    assert np.abs(found["vrl_sgd"] - found["periodic_averaging"]).max() > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_an_interval_of_one_is_synchronous_sgd(name):
    """All local models are the same, and FedAvg with one step is as well."""
    data, learning = tiny.client_data(SIZES), local(steps=1, momentum=0.0)
    running = tiny.Rounds(tiny.build(name, learning), data)
    fedavg = tiny.Rounds(tiny.build("fedavg", learning, weighting="uniform"), data)
    for _ in range(4):
        running.next()
        fedavg.next()
        for a, b in zip(running.weights(), fedavg.weights()):
            np.testing.assert_allclose(a, b, atol=1e-6)
        assert float(running.metrics[-1]["discrepancy"]) < 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_one_client_is_plain_sgd(name):
    data = tiny.client_data((20,))
    running = tiny.Rounds(tiny.build(name, local(), population=1), data)
    fedavg = tiny.Rounds(tiny.build("fedavg", local()), data)
    running.next()
    fedavg.next()
    for a, b in zip(running.weights(), fedavg.weights()):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_statistics_and_momentum_stay_on_the_clients(name):
    data = tiny.client_data(SIZES)
    running = tiny.Rounds(tiny.build(name, local(), tiny.spec(batch_norm=True)), data)
    running.next()
    kept = [running.kept(i) for i in range(3)]
    for field in ("statistics", "momentum"):
        assert not np.allclose(kept[0][field], kept[1][field])
    mean = np.mean([k["statistics"] for k in kept], axis=0)
    weights = running.process.get_model_weights(running.state)
    np.testing.assert_allclose(np.concatenate(tiny.flat(weights.non_trainable)), mean, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_losses_of_local_models_before_the_average_and_of_the_global_one(name):
    """On all examples, which are more than a batch of them."""
    data = tiny.client_data((300, 7, 20))
    process = tiny.build(name, local())
    running = tiny.Rounds(process, data)
    states = process.client_states(range(3), [True] * 3, [process.initial_client_state()] * 3, True)
    output = process.next(running.state, states, running.records)
    found = output.metrics["losses"]
    models = before_the_last_average(name, data, running.weights())
    losses = [reference_loss(model, *data[i]) for i, model in enumerate(models)]
    assert found["min_local_loss"] == pytest.approx(min(losses), rel=1e-5)
    sizes = [len(y) for _, y in data]
    assert found["mean_local_loss"] == pytest.approx(np.average(losses, weights=sizes), rel=1e-5)
    whole = np.concatenate([x for x, _ in data]), np.concatenate([y for _, y in data])
    wanted = reference_loss(tiny.flat(process.get_model_weights(output.state)), *whole)
    assert found["global_loss"] == pytest.approx(wanted, rel=1e-5)
    assert found["min_local_loss"] != pytest.approx(wanted, rel=1e-3)


def before_the_last_average(name, data, initial):
    """The reference's local models after one round, the last average undone: made without it."""
    kind = averaging(name)
    steps = iterations(data, 1, local(), [0.3] * TAU)

    class Until:
        tau = TAU

        def averaged(self, k, shapes):
            mask = kind.averaged(k, shapes)
            return mask & False if k == TAU - 1 else mask

    found = reference.run(initial, data, steps, Until(), momentum=0.6, weight_decay=0.02)
    return found[-1]["models"]


def reference_loss(weights, x, y):
    from tests.references import layers as reference_layers

    return reference_layers.loss([np.asarray(w, np.float64) for w in weights], x, y)


def test_both_send_the_same_at_the_papers_intervals():
    """110 steps: 11 rounds of 10, or 10 rounds of 11 and one hand-over."""
    model, bytes_up = tiny.spec(), {}
    for name, steps, rounds in (("partial_averaging", 11, 10), ("periodic_averaging", 10, 11)):
        entry = registry.ALGORITHMS[name]
        params = entry.params(local=local(steps=steps), population=8, active=2)
        assert params.period() == (10 if name == "partial_averaging" else 1)
        bytes_up[name] = rounds * entry.cost(model, params, tiers.create("strong")).bytes_up
    # Bytes of a round are rounded.
    assert bytes_up["partial_averaging"] == pytest.approx(bytes_up["periodic_averaging"], abs=5)


@pytest.mark.parametrize("partition", parameter_subsets.PARTITIONS)
@pytest.mark.parametrize("model", sorted(models.NAMES))
def test_every_parameter_is_in_one_subset_of_about_the_same_size(model, partition):
    shape = (256,) if model == "bilstm" else (32, 32, 3)
    width = 0.1 if model in ("vgg11", "wide_resnet28_10", "wide_resnet16_8", "resnet18") else 1.0
    spec = model_spec.ModelSpec(
        lambda: models.create(model, shape, 10, width),
        shape,
        "int32" if model == "bilstm" else "float32",
    )
    shapes = parameter_subsets.shapes_of(spec)
    layers = parameter_subsets.layers_of(spec)
    total = sum(math.prod(s) for s in shapes)
    for tau in range(1, 65):
        owned = owners(partition, shapes, layers, tau)
        assert all(o.min() >= 0 and o.max() < tau for o in owned)
        assert all(o.shape in ((), s[-1:]) for o, s in zip(owned, shapes))
        sizes = parameter_subsets.sizes(owned, shapes, tau)
        assert sizes.sum() == total
        if partition == "layer":
            together = {(layer, int(owner)) for layer, owner in zip(layers, owned)}
            assert len(together) == len(set(layers))
            parameters = np.bincount(layers, [math.prod(s) for s in shapes])
            assert sizes.max() <= total / tau + parameters.max()
        else:
            # A piece is at most one channel more than its share.
            channel = max(math.prod(s[:-1]) for s in shapes)
            assert sizes.max() <= total / tau + len(shapes) * channel


def test_a_layer_is_what_keras_calls_one():
    """Kernel, recurrent kernel and bias of an LSTM, scale and offset of a norm."""

    def create():
        blocks = [
            tf.keras.layers.Embedding(9, 4),
            tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(3)),
            tf.keras.Sequential([tf.keras.layers.Dense(5), tf.keras.layers.BatchNormalization()]),
            tf.keras.layers.Dense(2),
        ]
        return tf.keras.Sequential(blocks)

    layers = parameter_subsets.layers_of(model_spec.ModelSpec(create, (6,), "int32"))
    sizes = [layers.count(layer) for layer in sorted(set(layers))]
    assert sizes == [1, 3, 3, 2, 2, 2]


@pytest.mark.parametrize("partition", parameter_subsets.PARTITIONS)
@pytest.mark.parametrize("tau", [1, 2, 3, 7, 64])
def test_tau_selections_cover_everything_once_and_keep_the_mean(partition, tau):
    layout = parameter_subsets.Layout(SHAPES, owners(partition, SHAPES, LAYERS, tau), tau)
    rng = np.random.default_rng(tau)
    clients = rng.normal(size=(3, layout.size)).astype(np.float32)
    covered = np.zeros(layout.size)
    for subset in range(tau):
        before = clients.mean(axis=0)
        picked = np.mean([layout.select(x, subset) for x in clients], axis=0)
        clients = np.stack([layout.replace(x, subset, picked) for x in clients])
        np.testing.assert_allclose(clients.mean(axis=0), before, atol=1e-6)
        ones = tf.ones([layout.width])
        covered += layout.replace(tf.zeros([layout.size]), subset, ones).numpy()
    np.testing.assert_array_equal(covered, 1)
    assert np.abs(clients - clients.mean(axis=0)).max() < 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_without_any_examples_the_model_stays(name):
    x, y = tiny.client_data((5,))[0]
    running = tiny.Rounds(tiny.build(name, local(), population=1), [(x[:0], y[:0])])
    initial = running.weights()
    running.next()
    for a, b in zip(running.weights(), initial):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_epochs_are_refused(name):
    with pytest.raises(ValueError, match="Received: epochs=1"):
        tiny.build(name, LocalTraining(epochs=1))
