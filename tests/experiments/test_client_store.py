"""The store of clients' states: what it returns, keeps on disk, and finds after being killed."""

import collections
import contextlib
import os

import numpy as np
import pytest

from tests import tiny
from tests.experiments.rounds import Data, evaluate
from tff_partial.core.local_training import LocalTraining
from tff_partial.experiments import client_store, loop

INITIAL = collections.OrderedDict(a=[np.zeros(3, np.float32), np.ones([2, 2], np.float32)], t=-1)


def state(value):
    return collections.OrderedDict(
        a=[np.full(3, value, np.float32), np.full([2, 2], value, np.float32)], t=np.int32(value)
    )


def files(folder):
    return sorted(name for _, _, names in os.walk(folder) for name in names)


def checkpoint(store):
    listed = store.write()
    store.forget_replaced()
    return listed


def values(store, clients):
    return [float(store.get(client)["a"][0][0]) for client in clients]


@pytest.mark.parametrize("cache", [None, 1, 2])
def test_returns_what_was_put_and_the_initial_value_otherwise(tmp_path, cache):
    store = client_store.ClientStates(str(tmp_path), INITIAL, cache)
    store.put({5: state(5), 1_000_000_007: state(7), 6: state(6)}, done=1)
    store.put({6: state(8)}, done=2)
    assert values(store, [5, 1_000_000_007, 6, 9]) == [5, 7, 8, 0]
    np.testing.assert_array_equal(store.get(9)["a"][1], np.ones([2, 2]))
    assert store.get(5)["t"] == 5
    assert len(store) == 3


def test_nothing_is_written_for_clients_never_seen_or_back_at_the_initial_value(tmp_path):
    store = client_store.ClientStates(str(tmp_path), INITIAL)
    store.get(3)
    store.put({1: state(1), 2: INITIAL}, done=1)
    checkpoint(store)
    assert files(tmp_path) == ["1.1.npz"]
    store.put({1: INITIAL}, done=2)
    assert len(checkpoint(store)) == 0
    assert files(tmp_path) == ["1.1.npz"]  # of the checkpoint before, which is kept too
    checkpoint(store)
    assert files(tmp_path) == []
    assert len(store) == 0
    assert values(store, [1, 2, 3]) == [0, 0, 0]


def test_one_file_a_client_after_a_checkpoint(tmp_path):
    store = client_store.ClientStates(str(tmp_path), INITIAL, cache=1)
    for done in range(1, 6):
        store.put({1: state(done), 2: state(10 * done), 1007: state(100 * done)}, done)
    checkpoint(store)
    assert files(tmp_path) == ["1.5.npz", "1007.5.npz", "2.5.npz"]
    assert sorted(os.listdir(tmp_path)) == ["0", "1"]


@pytest.mark.parametrize("cache", [None, 1])
def test_restore_goes_back_to_the_checkpoint(tmp_path, cache):
    store = client_store.ClientStates(str(tmp_path), INITIAL, cache)
    store.put({1: state(1), 2: state(2), 3: state(3)}, done=1)
    listed = checkpoint(store)
    store.put({1: state(9), 2: INITIAL, 4: state(4)}, done=2)
    store.write()  # the server's state was not saved any more
    for found in (store, client_store.ClientStates(str(tmp_path), INITIAL, cache)):
        found.restore(listed)
        assert values(found, [1, 2, 3, 4]) == [1, 2, 3, 0]
        assert files(tmp_path) == ["1.1.npz", "2.1.npz", "3.1.npz"]
    store.restore()
    assert values(store, [1, 2, 3, 4]) == [0, 0, 0, 0]
    assert files(tmp_path) == []


@pytest.mark.parametrize("again", [False, True], ids=["same store", "new store"])
def test_files_of_the_checkpoint_before_last_stay_until_the_next(tmp_path, again):
    store = client_store.ClientStates(str(tmp_path), INITIAL)
    store.put({1: state(1), 2: state(2)}, done=1)
    first = checkpoint(store)
    store.put({1: state(8), 3: state(3)}, done=2)
    second = checkpoint(store)
    assert files(tmp_path) == ["1.1.npz", "1.2.npz", "2.1.npz", "3.2.npz"]
    if again:
        store = client_store.ClientStates(str(tmp_path), INITIAL)
        store.restore(second, first)
        assert values(store, [1, 2, 3]) == [8, 2, 3]
        assert files(tmp_path) == ["1.1.npz", "1.2.npz", "2.1.npz", "3.2.npz"]
    store.put({2: state(7)}, done=3)
    checkpoint(store)
    assert files(tmp_path) == ["1.2.npz", "2.1.npz", "2.3.npz", "3.2.npz"]
    older = client_store.ClientStates(str(tmp_path), INITIAL)
    older.restore(second)
    assert values(older, [1, 2, 3]) == [8, 2, 3]


def test_bfloat16_takes_half_the_space_in_memory_and_on_disk(tmp_path):
    """Values are rounded to 8 bits, scalars and integers are not; files give the same again."""
    rng = np.random.default_rng(0)
    initial = collections.OrderedDict(w=np.zeros([50, 40], np.float32), s=np.float32(0), t=0)
    value = {"w": rng.normal(size=[50, 40]).astype(np.float32), "s": np.float32(0.1), "t": 65537}
    store = client_store.ClientStates(str(tmp_path), initial, precision="bfloat16")
    store.put({1: collections.OrderedDict(value)}, done=1)
    kept = sum(array.nbytes for array in store._cache[1])
    assert kept < 0.51 * value["w"].nbytes
    listed = checkpoint(store)
    assert listed[0, 2] < 0.6 * value["w"].nbytes
    again = client_store.ClientStates(str(tmp_path), initial, precision="bfloat16")
    again.restore(listed)
    for found in (store.get(1), again.get(1)):
        assert found["w"].dtype == np.float32
        np.testing.assert_array_equal(found["w"], store.get(1)["w"])
        np.testing.assert_allclose(found["w"], value["w"], rtol=2**-8)
        assert not np.array_equal(found["w"], value["w"])
        assert (found["s"], found["t"]) == (value["s"], value["t"])
    store.put({1: initial}, done=2)
    assert len(store) == 0


def restored_value(store, listed, client):
    store.restore(listed)
    return store.get(client)


def test_missing_and_damaged_files_are_errors_and_stray_ones_are_left_alone(tmp_path):
    store = client_store.ClientStates(str(tmp_path), INITIAL)
    store.put({1: state(1), 2: state(2)}, done=1)
    listed = checkpoint(store)
    strays = ["notes.txt", "0/7.npz", "0/x.1.npz", "0/1.1.npz~", "5.1.npz", "0/note_temp"]
    for name in strays:
        (tmp_path / name).write_text("mine")
    (tmp_path / "0" / "1.3.npz_temp").write_text("half")
    store.restore(listed)
    assert values(store, [1, 2]) == [1, 2]
    assert len(files(tmp_path)) == 2 + len(strays)
    intact = (tmp_path / "0" / "2.1.npz").read_bytes()
    before = files(tmp_path)
    flipped = bytearray(intact)
    flipped[len(intact) // 2] ^= 4
    for content in (None, b"", intact[:-9], bytes(flipped)):
        (tmp_path / "0" / "2.1.npz").unlink(missing_ok=True)
        if content is not None:
            (tmp_path / "0" / "2.1.npz").write_bytes(content)
        with pytest.raises(client_store.CheckpointError, match=r"2\.1\.npz") as caught:
            restored_value(store, listed, 2)
        assert "\n" not in str(caught.value)
        assert len(files(tmp_path)) >= len(before) - 1


def test_the_cache_is_bounded(tmp_path):
    store = client_store.ClientStates(str(tmp_path), INITIAL, cache=4)
    for client in range(50):
        store.put({client: state(client + 1)}, done=1)
        store.get(client // 2)
        assert len(store._cache) <= 4
    assert values(store, range(50)) == list(range(1, 51))


def test_a_cache_must_hold_a_client(tmp_path):
    with pytest.raises(ValueError, match="Received: cache=0"):
        client_store.ClientStates(str(tmp_path), INITIAL, cache=0)


class Killed(BaseException):
    pass


class DyingDisk:
    """Lets so many writes happen, then none any more, as for a process that was killed."""

    def __init__(self, monkeypatch, writes):
        self.left = writes
        for name in ("replace", "remove", "mkdir"):
            self._patch(monkeypatch, os, name)

    def _patch(self, monkeypatch, owner, name):
        original = getattr(owner, name)

        def write(*args, **kwargs):
            self.left -= 1
            if self.left < 0:
                raise Killed
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, write)


def run(process, folder, cache=None):
    options = loop.LoopOptions(4, 2, checkpoint_every=2, client_state_cache=cache)
    weights = loop.train(process, Data(5), evaluate, options, str(folder))
    rows = (folder / "metrics.csv").read_text().splitlines()
    seconds = rows[0].split(",").index("seconds")
    return tiny.flat(weights), [r.split(",")[:seconds] + r.split(",")[seconds + 1 :] for r in rows]


@pytest.mark.parametrize(
    ("name", "cache", "params"),
    [
        ("fedumf_feddc", 1, {}),
        ("scaffold", None, {}),
        ("partial_averaging", 1, {"active": 2, "rounds_active": 2}),
    ],
)
def test_killed_between_any_two_writes_goes_on_bit_for_bit(
    name, cache, params, tmp_path, monkeypatch
):
    local = LocalTraining(steps=3, batch_size=4, learning_rate="0.2*0.9", momentum=0.5)
    process = tiny.build(name, local, population=5, **params)
    expected, rows = run(process, tmp_path / "whole", cache)
    kept = files(tmp_path / "whole" / "client_states")
    for writes in range(1000):
        folder = tmp_path / str(writes)
        with monkeypatch.context() as patches:
            disk = DyingDisk(patches, writes)
            with contextlib.suppress(Killed):
                run(process, folder, cache)
        found, found_rows = run(process, folder, cache)
        for a, b in zip(found, expected):
            np.testing.assert_array_equal(a, b)
        assert found_rows == rows
        assert files(folder / "client_states") == kept
        if disk.left >= 0:
            break
    assert 10 < writes < 300


def test_a_million_clients_cost_what_those_who_took_part_cost(tmp_path):
    local = LocalTraining(steps=2, batch_size=4, learning_rate=0.1)
    for name in ("fedumf", "scaffold"):
        process = tiny.build(name, local, population=1_000_000)
        data = Data(1_000_000)
        options = loop.LoopOptions(rounds=6, clients_per_round=10, checkpoint_every=3)
        loop.train(process, data, evaluate, options, str(tmp_path / name))
        assert len(data.asked) <= 70 + 1
        # FedUMF keeps what it may still fuse, for both checkpoints; SCAFFOLD everybody's variate.
        wanted = 20 if name == "fedumf" else 60
        assert len(files(tmp_path / name / "client_states")) == wanted


def test_a_checkpoint_in_which_clients_kept_something_else_is_refused(tmp_path):
    store = client_store.ClientStates(str(tmp_path), INITIAL)
    store.put({1: state(1)}, done=1)
    listed = checkpoint(store)
    for other in (
        collections.OrderedDict(b=INITIAL["a"], t=-1),  # the same shapes by another name
        collections.OrderedDict(a=INITIAL["a"][:1], t=-1),
    ):
        with pytest.raises(
            client_store.CheckpointError, match=r"must hold .* Received: value/a/0, value/a/1"
        ):
            client_store.ClientStates(str(tmp_path), other).restore(listed)
    assert files(tmp_path) == ["1.1.npz"]
    store.restore(listed)
    assert values(store, [1]) == [1]


def test_states_are_matched_by_id_whatever_their_order():
    states = [{"client_id": np.int64(i), "value": f"of {i}"} for i in (7, 3, 5)]
    assert client_store.by_id(states) == {3: "of 3", 5: "of 5", 7: "of 7"}
