"""The store that keeps clients' state between rounds, by client id.

    <folder>/<client id // 1000>/<client id>.<round>.npz

A file is what a client kept after a round, by name; it appears complete or not at all. A
checkpoint writes what has changed since the last one; the files it replaces are removed when the
server's state is saved too. So a run that was killed, at any moment, finds the files of its last
checkpoint, and `restore` removes newer ones.

In memory every client that was touched stays in the cache; on disk the cache is bounded, and what
falls out of it is written before its checkpoint. A client that has the initial value, because it
was never seen or came back to it, takes no space.
"""

from __future__ import annotations

import collections
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np
import tree

from tff_partial.lazy import tf

KINDS = ("memory", "disk")
CACHE = 256
_CLIENTS_IN_A_FOLDER = 1000
_State = Optional[list[np.ndarray]]  # None: the initial value


class CheckpointError(ValueError):
    """A checkpoint that this version of an algorithm cannot go on from."""


class ClientStates:
    """Client id -> what the client keeps.

    Args:
      folder: Where checkpoints go; made when the first one is written.
      initial: What a client keeps that was never seen.
      cache: Number of clients that are kept in memory; all by default.
    """

    def __init__(self, folder: str, initial: Any, cache: Optional[int] = None) -> None:
        if cache is not None and cache < 1:
            raise ValueError(f"cache must be a positive number of clients. Received: cache={cache}")
        self._folder, self._limit = folder, cache
        self.initial = self._structure = initial
        self._initial = [np.asarray(value) for value in tf.nest.flatten(initial)]
        self._names = [
            "/".join(map(str, ("value", *p))) for p, _ in tree.flatten_with_path(initial)
        ]
        self._cache: collections.OrderedDict[int, _State] = collections.OrderedDict()
        self._unwritten: dict[int, int] = {}  # client id -> round
        self._files: dict[int, int] = {}  # client id -> round of its newest file
        # Paths to be removed after the next checkpoint, the oldest first.
        self._replaced: dict[str, None] = {}

    def __len__(self) -> int:
        """Number of clients whose state is not the initial one."""
        cached = sum(state is not None for state in self._cache.values())
        return cached + sum(client not in self._cache for client in self._files)

    def __contains__(self, client_id: int) -> bool:
        """Whether the client keeps anything but the initial value."""
        return self._lookup(int(client_id)) is not None

    def get(self, client_id: int) -> Any:
        """What the client keeps."""
        state = self._lookup(int(client_id))
        return tf.nest.pack_sequence_as(self._structure, self._initial if state is None else state)

    def put(self, values: Mapping[int, Any], done: int) -> None:
        """Replaces what these clients keep, after so many rounds. Can be repeated."""
        for client_id, value in values.items():
            parts = [np.asarray(part) for part in tf.nest.flatten(value)]
            self._unwritten[int(client_id)] = done
            self._keep(int(client_id), None if self._is_initial(parts) else parts)

    def _is_initial(self, parts: list[np.ndarray]) -> bool:
        # The smallest first: mostly they differ, and the others need not be looked at.
        pairs = sorted(zip(parts, self._initial), key=lambda pair: pair[0].size)
        return all(np.array_equal(part, initial) for part, initial in pairs)

    def write(self) -> None:
        """The first half of a checkpoint: what has changed is in files, the old ones too."""
        for client in list(self._unwritten):
            self._write(client, self._cache[client])

    def forget_replaced(self) -> None:
        """The second half, after the server's state is saved: removes what was replaced."""
        for path in self._replaced:
            _remove(path)
        self._replaced = {}

    def restore(self, done: int) -> None:
        """Goes back to the checkpoint after so many rounds; 0 is the beginning.

        Raises:
          CheckpointError: If clients kept something else then, in another version.
        """
        self._cache.clear()
        self._unwritten, self._files, self._replaced = {}, {}, {}
        found: dict[int, int] = {}
        for client, round_num, path in sorted(self._listing()):
            if round_num > done:
                _remove(path)
                continue
            if client in found:
                _remove(self._path(client, found[client]))
            found[client] = round_num
        for client, round_num in found.items():
            if os.path.getsize(self._path(client, round_num)):
                self._files[client] = round_num
            else:
                _remove(self._path(client, round_num))
        for client, round_num in itertools.islice(self._files.items(), 1):
            self._check_names(self._path(client, round_num))

    def _check_names(self, path: str) -> None:
        with np.load(path) as file:
            found = file.files
        if sorted(found) != sorted(self._names):
            raise CheckpointError(
                f"{path} must hold {_short(self._names)}. Received: {_short(found)}; a run of "
                "another version cannot be gone on with"
            )

    def _lookup(self, client: int) -> _State:
        if client in self._cache:
            self._cache.move_to_end(client)
            return self._cache[client]
        if client not in self._files:
            return None
        with np.load(self._path(client, self._files[client])) as file:
            state = [file[name] for name in self._names]
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
        """Writes a state in a file of its round; a file without content is the initial value."""
        round_num = self._unwritten.pop(client)
        before = self._files.pop(client, None)
        if before is not None and before != round_num:
            self._replaced[self._path(client, before)] = None
        if state is None and before is None:
            self._cache.pop(client)
            return
        path = self._path(client, round_num)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + "_temp", "wb") as file:
            if state is not None:
                np.savez(file, **dict(zip(self._names, state)))
        os.replace(path + "_temp", path)
        if state is None:
            self._cache.pop(client)
            self._replaced[path] = None
        else:
            self._files[client] = round_num
            self._replaced.pop(path, None)

    def _listing(self) -> Iterator[tuple[int, int, str]]:
        """(Client, round, path) of every file; removes what a killed write left."""
        for folder, _, names in os.walk(self._folder):
            for name in names:
                path = os.path.join(folder, name)
                if name.endswith("_temp"):
                    _remove(path)
                    continue
                client, round_num, _ = name.split(".")
                yield int(client), int(round_num), path

    def _path(self, client: int, round_num: int) -> str:
        shelf = str(client // _CLIENTS_IN_A_FOLDER)
        return os.path.join(self._folder, shelf, f"{client}.{round_num}.npz")


def check(kind: str) -> None:
    """Raises a ValueError if states cannot be kept so."""
    if kind not in KINDS:
        raise ValueError(f"client_state must be one of {KINDS}. Received: client_state={kind!r}")


def by_id(client_states: Sequence[Any]) -> dict[int, Any]:
    """What a process returned for its clients, in whatever order."""
    return {int(state["client_id"]): state["value"] for state in client_states}


def _short(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _remove(path: str) -> None:
    if os.path.exists(path):
        os.remove(path)
