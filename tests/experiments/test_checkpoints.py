"""Checkpoints: which one counts, damage, and those of other versions."""

import collections

import numpy as np
import pytest

from tff_partial.experiments import checkpoints

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
