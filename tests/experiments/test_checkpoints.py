"""Checkpoints, metrics.csv and the folder's lock: damage, divergence, full disks, two runs."""

import asyncio
import collections
import gc
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tests.experiments.test_client_store import Data, evaluate
from tff_partial.core import evaluation
from tff_partial.core.local_training import LocalTraining
from tff_partial.experiments import callbacks, checkpoints, client_store, divergence, participation
from tff_partial.experiments import loop as training
from tff_partial.results import metrics

STATE = collections.OrderedDict(
    w=[np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(4, np.float32)], t=np.int32(7)
)
FILES = np.array([[5, 1, 10], [9, 2, 11]], np.int64)


def save(folder, *rounds):
    store = checkpoints.Checkpoints(str(folder))
    for done in rounds:
        state = collections.OrderedDict(STATE, t=np.int32(done))
        store.save(done, state, FILES + done)
    return store


def restore(folder, like=STATE):
    return checkpoints.Checkpoints(str(folder)).restore(like)


def same(found, done):
    assert found.done == done
    assert found.state["t"] == done
    for a, b in zip(found.state["w"], STATE["w"]):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    np.testing.assert_array_equal(found.client_files, FILES + done)


def test_the_two_newest_are_kept_and_the_newest_is_restored(tmp_path):
    assert restore(tmp_path).done == 0
    save(tmp_path, 1, 2, 5)
    (tmp_path / "round_9.npz_temp").write_text("half")
    strays = ["notes.txt", "round_x.npz", "round_3.npz.bak"]
    for name in strays:
        (tmp_path / name).write_text("mine")
    (tmp_path / "round_4").mkdir()
    found = restore(tmp_path)
    same(found, 5)
    np.testing.assert_array_equal(found.older_files, FILES + 2)
    left = ["round_2.npz", "round_4", "round_5.npz", *strays]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(left)


def damages(content):
    """What may become of a file's bytes."""
    yield "empty", b""
    yield "garbage", np.random.default_rng(0).bytes(len(content))
    yield "zeros", bytes(len(content))
    for length in (1, 30, len(content) // 2, len(content) - 30, len(content) - 1):
        yield f"cut to {length}", content[:length]
    for at in range(0, len(content), 7):
        flipped = bytearray(content)
        flipped[at] ^= 1 << at % 8
        yield f"bit at {at}", bytes(flipped)


def test_a_damaged_checkpoint_is_named_in_a_line_and_the_one_before_is_taken(tmp_path, capsys):
    save(tmp_path, 2, 5)
    path = tmp_path / "round_5.npz"
    intact, fell_back = path.read_bytes(), 0
    for what, content in damages(intact):
        path.write_bytes(content)
        found = restore(tmp_path)
        said = capsys.readouterr().err
        if found.done == 5:  # a bit that means nothing, such as one of a date
            same(found, 5)
            assert said == "", what
            assert what.startswith("bit"), what
            continue
        same(found, 2)
        fell_back += 1
        assert said.startswith(f"warning: damaged checkpoint {path}: "), what
        assert said.count("\n") == 1, (what, said)
    assert fell_back > 150
    save(tmp_path, 6)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["round_6.npz"]


@pytest.mark.parametrize("other", [{}, {"format": 1, "round": 4, "clients": FILES}, {"w": [None]}])
def test_files_that_are_no_checkpoints_of_the_round_count_as_damaged(tmp_path, capsys, other):
    save(tmp_path, 2, 5)
    np.savez(tmp_path / "round_9.npz", **other)
    (tmp_path / "round_11.npz").mkdir()
    same(restore(tmp_path), 5)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warning: damaged checkpoint {tmp_path / 'round_9.npz'}: ")


def test_if_none_is_intact_the_run_is_refused_and_nothing_removed(tmp_path, capsys):
    save(tmp_path, 2, 5)
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(checkpoints.CheckpointError, match="Received: 2 damaged"):
        restore(tmp_path)
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert len(list(tmp_path.iterdir())) == 2


OTHERS = {
    "another shape": {"w": [np.zeros([3, 2], np.float32), np.ones(4, np.float32)]},
    "another type": {"t": np.int64(7)},
    "another name": {"x": np.int32(7)},
    "fewer": {"w": STATE["w"][:1]},
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS.keys())
def test_a_checkpoint_of_another_version_is_refused(tmp_path, change):
    save(tmp_path, 1)
    with pytest.raises(checkpoints.CheckpointError, match="another version cannot be resumed"):
        restore(tmp_path, collections.OrderedDict(STATE, **change))
    same(restore(tmp_path), 1)


def test_a_saved_model_of_an_older_version_is_refused(tmp_path):
    (tmp_path / "round_10").mkdir()
    with pytest.raises(checkpoints.CheckpointError, match="Received: round_10; a run of another"):
        restore(tmp_path)


# Whole runs.

LOCAL = LocalTraining(steps=3, batch_size=4, learning_rate="0.2*0.9", momentum=0.5)


@pytest.fixture(scope="module")
def process():
    return tiny.build("scaffold", LOCAL, population=5)


def run(process, folder, rounds=6, **others):
    options = training.LoopOptions(rounds, 2, checkpoint_every=2)
    return tiny.flat(training.train(process, Data(5), evaluate, options, str(folder), **others))


def without_seconds(folder):
    rows = metrics.read(str(folder))
    return [{name: v for name, v in row.items() if name != "seconds"} for row in rows]


def equal(found, expected):
    return all(np.array_equal(a, b) for a, b in zip(found, expected))


@pytest.fixture(scope="module")
def whole(process, tmp_path_factory):
    """A run of four rounds, and the weights and rows of one of six that was never stopped."""
    folder = tmp_path_factory.mktemp("runs")
    expected = run(process, folder / "six")
    run(process, folder / "four", 4)
    return folder / "four", expected, without_seconds(folder / "six")


def test_a_run_with_a_damaged_checkpoint_resumes_bit_for_bit(process, whole, tmp_path, capsys):
    folder, expected, rows = whole
    shutil.copytree(folder, tmp_path / "run")
    path = tmp_path / "run" / "checkpoints" / "round_4.npz"
    path.write_bytes(path.read_bytes()[:1000])
    watching = Watching()
    found = run(process, tmp_path / "run", callbacks=[watching])
    assert watching.done == [2, 3, 4, 5, 6]
    assert watching.has_ended
    assert str(path) in capsys.readouterr().err
    assert equal(found, expected)
    assert without_seconds(tmp_path / "run") == rows


class Watching(callbacks.Callback):
    """Notes what it is told of."""

    def __init__(self):
        self.done, self.rows, self.has_ended = [], [], False

    def on_start(self, done):
        self.done.append(done)

    def on_round(self, done, row):
        self.done.append(done)
        self.rows.append(row)

    def on_end(self):
        self.has_ended = True


def half_of_the_rows(folder):
    path = folder / "metrics.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))


LOST = {
    "client states": lambda folder: shutil.rmtree(folder / "client_states"),
    "a client state": lambda folder: next((folder / "client_states").rglob("*.4.npz")).unlink(),
    "metrics": lambda folder: (folder / "metrics.csv").unlink(),
    "half of the metrics": half_of_the_rows,
    "metrics without content": lambda folder: (folder / "metrics.csv").write_text(""),
    "metrics without rounds": lambda folder: (folder / "metrics.csv").write_text("a,b\n1,2\n"),
    "metrics of bytes": lambda folder: (folder / "metrics.csv").write_bytes(b"\xff\x00round"),
}


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST.keys())
def test_lost_files_are_an_error_and_no_fresh_start(process, whole, tmp_path, lose):
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    lose(folder)
    before = sorted(str(p) for p in folder.rglob("*") if "tensorboard" not in str(p))
    with pytest.raises(client_store.CheckpointError) as caught:
        run(process, folder)
    assert "\n" not in str(caught.value)
    assert sorted(str(p) for p in folder.rglob("*") if "tensorboard" not in str(p)) == before


def test_everything_is_synced_before_a_checkpoint_counts(process, tmp_path, monkeypatch):
    done = []

    def fsync(descriptor):
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    original = os.replace

    def replace(source, target):
        done.append(f"rename {target}")
        original(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    run(process, tmp_path, rounds=2)
    folder = str(tmp_path)
    path = f"{folder}/checkpoints/round_2.npz"
    first = done.index(f"rename {path}")
    states = [str(p) for p in (tmp_path / "client_states" / "0").iterdir()]
    assert len(states) == 3
    wanted = [*states, f"{folder}/client_states/0", f"{folder}/client_states"]
    wanted += [folder, f"{path}_temp"]
    metrics = max(i for i, d in enumerate(done) if d == f"rename {folder}/metrics.csv")
    assert done[metrics - 1] == f"{folder}/metrics.csv_temp"
    assert folder in done[metrics:first]
    for name in wanted:
        last_write = max((i for i, d in enumerate(done) if d == f"rename {name}"), default=-1)
        assert last_write < done.index(name) < first, name
    assert f"{folder}/checkpoints" in done[first:]


class Diverging:
    """Evaluates to NaN from the third round on."""

    def __init__(self):
        self.count = 0

    def __call__(self, weights):
        self.count += 1
        return evaluation.Evaluation(float("nan") if self.count > 2 else 1.0, {"accuracy": 0.5})


def diverge(process, folder, test=evaluate, **others):
    options = training.LoopOptions(6, 2, checkpoint_every=5)
    with pytest.raises(divergence.DivergedError) as caught:
        training.train(process, Data(5), test, options, str(folder), **others)
    return caught.value


@pytest.mark.parametrize(
    ("name", "params"), [("fedavg", {}), ("scaffold", {}), ("periodic_averaging", {"active": 2})]
)
def test_divergence_is_an_error_that_keeps_the_last_finite_state(name, params, tmp_path):
    local = LocalTraining(steps=3, batch_size=4, learning_rate="0.1,2:1e30")
    process = tiny.build(name, local, population=5, **params)
    watching = Watching()
    error = diverge(process, tmp_path, callbacks=[watching])
    assert error.round_num == 3
    assert watching.done == [0, 1, 2, 3]
    assert watching.has_ended
    assert "diverged in round 3: train_loss=" in str(error)
    assert "--learning_rate" in str(error)
    cohort = participation.sample_clients(5, 2, 2, 0).tolist()
    assert f"of cohort {cohort[0]}, {cohort[1]};" in str(error)
    for client in cohort:
        assert str(client) in str(error).split("clients ")[1].split(" of cohort")[0]
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["round_2.npz"]
    with np.load(tmp_path / "checkpoints" / "round_2.npz") as arrays:
        assert all(np.isfinite(arrays[name]).all() for name in arrays)
    rows = metrics.read(str(tmp_path))
    assert [row["round"] for row in rows] == [1, 2, 3]
    assert not np.isfinite(rows[-1]["train_loss"])
    again = diverge(process, tmp_path)
    assert str(again) == str(error)
    assert np.array_equal(
        [[*row.values()][1:5] for row in metrics.read(str(tmp_path))],
        [[*row.values()][1:5] for row in rows],
        equal_nan=True,
    )


@pytest.mark.parametrize(
    ("name", "params"), [("fedavg", {}), ("scaffold", {}), ("partial_averaging", {"active": 4})]
)
def test_only_the_clients_that_diverged_are_named(name, params, tmp_path):
    class OneIsHuge(Data):
        def client(self, client):
            x, y = super().client(client)
            return (x * np.float32(1e30) if client == 3 else x), y

    process = tiny.build(name, LOCAL, population=5, **params)
    options = training.LoopOptions(9, 4)
    with pytest.raises(divergence.DivergedError, match="clients 3 of cohort"):
        training.train(process, OneIsHuge(5), evaluate, options, str(tmp_path))


def test_a_test_loss_that_is_not_finite_is_divergence(process, tmp_path):
    assert "test_loss=nan" in str(diverge(process, tmp_path, Diverging()))


def test_a_tier_without_clients_has_an_empty_cell(tmp_path):
    local = LocalTraining(steps=2, batch_size=4)
    process = tiny.build("fedpmt", local, tiers=("strong", "1"))
    options = training.LoopOptions(2, 2)
    training.train(
        process,
        Data(4),
        evaluate,
        options,
        str(tmp_path),
        tier_of=lambda client, round_num: round_num,
    )
    rows = metrics.read(str(tmp_path))
    assert [row["train_accuracy_1"] is None for row in rows] == [True, False]
    assert [row["train_accuracy_strong"] is None for row in rows] == [False, True]


@pytest.mark.parametrize("name", ["fedavg", "scaffold"])
def test_training_runs_inside_an_event_loop_as_in_a_notebook(name, tmp_path):
    local = LocalTraining(steps=2, batch_size=4)

    async def notebook():
        return run(tiny.build(name, local, population=5), tmp_path / "inside")

    loop = asyncio.new_event_loop()  # `asyncio.run` would take away the one of other tests
    inside = loop.run_until_complete(notebook())
    loop.close()
    equal(inside, run(tiny.build(name, local, population=5), tmp_path / "outside"))
    assert without_seconds(tmp_path / "inside") == without_seconds(tmp_path / "outside")


def test_tensorboard_has_what_metrics_csv_has(tmp_path):
    from tensorboard.backend.event_processing import event_accumulator

    process = tiny.build("fedavg", LocalTraining(steps=2, batch_size=4))
    run(process, tmp_path, rounds=3, callbacks=[callbacks.TensorBoard(str(tmp_path))])
    [path] = (tmp_path / "tensorboard").iterdir()
    gc.collect()  # closes the writer
    events = event_accumulator.EventAccumulator(str(path), {"tensors": 0}).Reload()
    rows = metrics.read(str(tmp_path))
    losses = [float(tf.make_ndarray(e.tensor_proto)) for e in events.Tensors("train_loss")]
    assert losses == pytest.approx([row["train_loss"] for row in rows], rel=1e-6)
