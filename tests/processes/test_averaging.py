"""Other clients become active and take over."""

import functools

import numpy as np
import pytest

from tests import tiny
from tests.algorithms.averaging_rounds import SIZES, TAU, averaging, iterations, local
from tests.experiments.rounds import Data, evaluate
from tests.references import averaging as reference
from tff_partial.experiments import callbacks, loop, participation


@pytest.mark.parametrize("design", [1, 2])
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("partial_averaging", {}),
        ("partial_averaging", {"reset_momentum": True}),
        ("partial_averaging", {"mu": 0.5}),
        ("periodic_averaging", {}),
        ("vrl_sgd", {}),
    ],
)
def test_other_clients_become_active(name, changes, design, tmp_path):
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
        **changes,
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
        **changes,
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
