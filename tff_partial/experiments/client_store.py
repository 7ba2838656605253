"""The store that keeps clients' state between rounds, by client id.

    <folder>/<client id // 1000>/<client id>.<round>.npz

A file is what a client kept after a round, by name; it appears complete or not at all. A
checkpoint writes what has changed since the last one, and the server's part of it lists the files
that belong to it. A file that was replaced is removed when neither of the two checkpoints that a
run keeps lists it. So a run that was killed, at any moment, finds the files of both checkpoints,
and `restore` removes others; files of other names are left alone.

In memory every client that was touched stays in the cache; on disk the cache is bounded, and what
falls out of it is written before its checkpoint. A client that has the initial value, because it
was never seen or came back to it, takes no space. Float arrays may be kept in bfloat16, in memory
and in files: half the space. NumPy's format has no such type: its bits stand there as uint16.
"""

from __future__ import annotations

import collections
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np
import tree

from tff_partial.core.lazy import tf
from tff_partial.core.types import Array, Structure
from tff_partial.experiments import checkpoints
from tff_partial.experiments.checkpoints import NO_CLIENT_FILES, CheckpointError
from tff_partial.system import files

CACHE = 256
_CLIENTS_IN_A_FOLDER = 1000
_NAME = re.compile(r"(\d+)\.(\d+)\.npz")
_State = Optional[list[Array]]  # None: the initial value


class _File(NamedTuple):
    """A client's file: its round and its size."""

    round_num: int
    size: int


class ClientStates:
    """Client id -> what the client keeps.

    Args:
      folder: Where checkpoints go; made when the first one is written.
      initial: What a client keeps that was never seen.
      cache: Number of clients that are kept in memory; all by default.
      precision: Type that float arrays are kept in, `float32` or `bfloat16`.
    """

    def __init__(
        self,
        folder: str,
        initial: Structure,
        cache: Optional[int] = None,
        precision: str = "float32",
    ) -> None:
        if cache is not None and cache < 1:
            raise ValueError(f"cache must be a positive number of clients. Received: cache={cache}")
        self._folder, self._limit, self.initial = folder, cache, initial
        self._is_short = precision == "bfloat16"
        self._initial = [np.asarray(value) for value in tf.nest.flatten(initial)]
        self._names = [
            "/".join(map(str, ("value", *p))) for p, _ in tree.flatten_with_path(initial)
        ]
        self._cache: collections.OrderedDict[int, _State] = collections.OrderedDict()
        self._unwritten: dict[int, int] = {}  # client id -> round
        self._files: dict[int, _File] = {}  # client id -> its newest file
        self._unsynced: set[str] = set()
        # (Client, round) of files that are no longer the newest of their client.
        self._replaced: set[tuple[int, int]] = set()
        # The files that belong to the last checkpoint.
        self._saved: dict[int, _File] = {}

    def __len__(self) -> int:
        """Return the number of clients whose state is not the initial one."""
        cached = sum(state is not None for state in self._cache.values())
        return cached + sum(client not in self._cache for client in self._files)

    def __contains__(self, client_id: int) -> bool:
        """Return whether the client keeps anything but the initial value."""
        return self._lookup(int(client_id)) is not None

    def get(self, client_id: int) -> Structure:
        """Return what the client keeps."""
        state = self._lookup(int(client_id))
        values = self._initial if state is None else map(_lengthened, state, self._initial)
        return tf.nest.pack_sequence_as(self.initial, [*values])

    def put(self, values: Mapping[int, Structure], done: int) -> None:
        """Replace what these clients keep, after so many rounds. Can be repeated."""
        for client_id, value in values.items():
            parts = [np.asarray(part) for part in tf.nest.flatten(value)]
            self._unwritten[int(client_id)] = done
            kept = map(_shortened, parts) if self._is_short else parts
            self._keep(int(client_id), None if self._is_initial(parts) else [*kept])

    def _is_initial(self, parts: list[Array]) -> bool:
        # The smallest first: mostly they differ, and the others need not be looked at.
        pairs = sorted(zip(parts, self._initial), key=lambda pair: pair[0].size)
        return all(np.array_equal(part, initial) for part, initial in pairs)

    def write(self) -> Array:
        """Write what has changed, the first half of a checkpoint.

        Returns:
          The files that belong to it, for the server's half: client, round, bytes [n, 3].
        """
        for client in list(self._unwritten):
            self._write(client, self._cache[client])
        shelves = {os.path.dirname(path) for path in self._unsynced}
        for path in [*self._unsynced, *shelves, *([self._folder] if shelves else [])]:
            files.sync(path)
        self._unsynced = set()
        rows = [(client, *file) for client, file in sorted(self._files.items())]
        return np.array(rows, np.int64).reshape(-1, 3)

    def forget_replaced(self) -> None:
        """Remove what neither this nor the last checkpoint needs, once the server's half is there.

        The older one is for a run that finds the newer one damaged.
        """
        needed = {
            (c, f.round_num) for saved in (self._saved, self._files) for c, f in saved.items()
        }
        for pair in self._replaced - needed:
            files.remove(self._path(*pair))
        self._replaced &= needed
        self._saved = dict(self._files)

    def restore(
        self, client_files: Array = NO_CLIENT_FILES, older_files: Array = NO_CLIENT_FILES
    ) -> None:
        """Go back to a checkpoint, given its files and those of the one before; none by default.

        Raises:
          CheckpointError: If a file is not there, or clients kept something else, in another
            version. Nothing is removed then.
        """
        wanted = {int(c): _File(int(r), int(size)) for c, r, size in client_files}
        self._check(wanted)
        self._cache.clear()
        self._unwritten, self._unsynced = {}, set()
        self._files, self._saved = wanted, dict(wanted)
        newest = {(client, file.round_num) for client, file in wanted.items()}
        self._replaced = {(int(c), int(r)) for c, r, _ in older_files} - newest
        needed = newest | self._replaced
        for client, round_num, path in list(self._listing()):
            if (client, round_num) not in needed:
                files.remove(path)

    def _check(self, wanted: Mapping[int, _File]) -> None:
        """Raise a CheckpointError if a file is missing or of another size."""
        paths = {self._path(c, file.round_num): file.size for c, file in wanted.items()}
        missing = [path for path in paths if not os.path.isfile(path)]
        if missing:
            raise CheckpointError(
                f"{self._folder} must hold {len(paths)} files of the last checkpoint. "
                f"Received: {len(missing)} missing, such as {missing[0]}"
            )
        for path, size in paths.items():
            if os.path.getsize(path) != size:
                raise CheckpointError(
                    f"{path} must have {size} bytes, as the checkpoint says. "
                    f"Received: {os.path.getsize(path)}"
                )
        for path in [*paths][:1]:
            self._read(path)

    def _read(self, path: str) -> list[Array]:
        try:
            arrays = checkpoints.read(path)
        except checkpoints.DamagedError as error:
            raise CheckpointError(f"a client's state must be intact. Received: {error}") from error
        if sorted(arrays) != sorted(self._names):
            raise CheckpointError(
                f"{path} must hold {_short(self._names)}. Received: {_short([*arrays])}; a run of "
                "another version cannot be resumed"
            )
        return [arrays[name] for name in self._names]

    def _lookup(self, client: int) -> _State:
        if client in self._cache:
            self._cache.move_to_end(client)
            return self._cache[client]
        if client not in self._files:
            return None
        state = self._read(self._path(client, self._files[client].round_num))
        self._keep(client, state)
        return state

    def _keep(self, client: int, state: _State) -> None:
        self._cache[client] = state
        self._cache.move_to_end(client)
        while self._limit is not None and len(self._cache) > self._limit:
            oldest = next(iter(self._cache))
            if oldest in self._unwritten:
                self._write(oldest, self._cache[oldest])
            self._cache.pop(oldest, None)

    def _write(self, client: int, state: _State) -> None:
        """Write a state in a file of its round; the initial value has none."""
        round_num, before = self._unwritten[client], self._files.get(client)
        if state is not None:
            path = self._path(client, round_num)
            self._make_shelf(os.path.dirname(path))
            content = files.npz(dict(zip(self._names, state)))
            files.write(path, content, synced=False)  # all of a checkpoint's at once
            self._unsynced.add(path)
            self._files[client] = _File(round_num, len(content))
            self._replaced.discard((client, round_num))
        else:
            self._cache.pop(client)
            self._files.pop(client, None)
        del self._unwritten[client]
        after = self._files.get(client)
        if before is not None and (after is None or after.round_num != before.round_num):
            self._replaced.add((client, before.round_num))
            self._unsynced.discard(self._path(client, before.round_num))

    def _make_shelf(self, path: str) -> None:
        # Not `makedirs`: where the run's folder was removed, a part of it must not come back.
        for folder in (self._folder, path):
            if not os.path.isdir(folder):
                os.mkdir(folder)

    def _listing(self) -> Iterator[tuple[int, int, str]]:
        """Yield client, round and path of every file; remove what a killed write left."""
        for folder, _, names in os.walk(self._folder):
            for name in names:
                path, match = os.path.join(folder, name), _NAME.fullmatch(name)
                if match and path == self._path(int(match[1]), int(match[2])):
                    yield int(match[1]), int(match[2]), path
                elif re.fullmatch(_NAME.pattern + files.TEMPORARY, name):
                    files.remove(path)

    def _path(self, client: int, round_num: int) -> str:
        shelf = str(client // _CLIENTS_IN_A_FOLDER)
        return os.path.join(self._folder, shelf, f"{client}.{round_num}.npz")


def by_id(client_states: Sequence[Structure]) -> dict[int, Structure]:
    """Return what a process returned for its clients, in whatever order, by client id."""
    return {int(state["client_id"]): state["value"] for state in client_states}


def _shortened(array: Array) -> Array:
    """Return a float32 array as the bits of bfloat16; others, and scalars, as they are."""
    if array.dtype != np.float32 or not array.ndim:
        return array
    return array.astype(tf.bfloat16.as_numpy_dtype).view(np.uint16)


def _lengthened(array: Array, like: Array) -> Array:
    """Undo `_shortened` where an array like this one was shortened."""
    if array.dtype != np.uint16 or like.dtype != np.float32:
        return array
    return (array.astype(np.uint32) << 16).view(np.float32)


def _short(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
