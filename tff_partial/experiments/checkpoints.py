"""The server's state after a round, as a file.

    <folder>/round_<round>.npz

A file holds every array of the state by its position and name, the round, and the list of the
clients' files that belong to it. The two newest stay. Every array has the checksum of its zip
entry, which is verified when a run resumes: a damaged file is reported, and the run goes back to
the newest intact one.
"""

from __future__ import annotations

import os
import re
import sys
import zipfile
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tqdm
import tree

from tff_partial.core.lazy import tf
from tff_partial.core.types import Array, ServerState, Structure
from tff_partial.system import files

FORMAT = 1
KEPT = 2
# Of a run without client states: rows (client, round, bytes).
NO_CLIENT_FILES = np.zeros([0, 3], np.int64)
_NAME = re.compile(r"round_(\d+)\.npz")
_OLD_NAME = re.compile(r"round_\d+")
_STATE = "state/"


class CheckpointError(ValueError):
    """A checkpoint that a run cannot resume from."""


class DamagedError(Exception):
    """A file that does not hold what was written."""


class Restored(NamedTuple):
    """What a run resumes from.

    Attributes:
      done: The number of rounds done; 0 at the beginning.
      state: The server's state.
      client_files: The clients' files that belong to it: client, round, bytes [n, 3].
      older_files: Those of the checkpoint before it, to which the run can still go back.
    """

    done: int
    state: ServerState
    client_files: Array = NO_CLIENT_FILES
    older_files: Array = NO_CLIENT_FILES


class Checkpoints:
    """The checkpoints of a run, in a folder that exists.

    Attributes:
      rounds: Those that were saved or found intact, ascending, the two newest at most.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.rounds: list[int] = []

    def save(self, done: int, state: ServerState, client_files: Array) -> None:
        """Save the state after so many rounds, then remove older checkpoints."""
        numbers = {"format": np.asarray(FORMAT), "round": np.asarray(done)}
        arrays = {**numbers, "clients": client_files, **_named_arrays(state)}
        files.write(self._path(done), files.npz(arrays))
        files.sync(self._folder)
        self.rounds = [*self.rounds, done][-KEPT:]
        for other in {*self._listing()} - {*self.rounds}:
            files.remove(self._path(other))

    def restore(self, initial_state: ServerState) -> Restored:
        """Load the newest intact checkpoint, or return the beginning if there is none at all.

        Raises:
          CheckpointError: If all are damaged, or of another version.
        """
        for name in os.listdir(self._folder):
            if name.endswith(files.TEMPORARY) and _NAME.fullmatch(name[: -len(files.TEMPORARY)]):
                files.remove(os.path.join(self._folder, name))
        listing = self._listing()
        if not listing:
            self._check_no_old_format()
            return Restored(0, initial_state)
        for i, done in reversed(list(enumerate(listing))):
            try:
                arrays = self._read(done)
            except DamagedError as error:
                # Where there is a bar, on a line of its own.
                tqdm.tqdm.write(f"warning: damaged checkpoint {error}", file=sys.stderr)
                continue
            state = self._unpack(done, arrays, initial_state)
            older = self._files_of_older(listing[:i])
            self.rounds.append(done)
            return Restored(done, state, arrays["clients"], older)
        raise CheckpointError(
            f"{self._folder} must hold an intact checkpoint. Received: {len(listing)} damaged; "
            "a new --output_dir starts the run again"
        )

    def _files_of_older(self, rounds: list[int]) -> Array:
        """Find the newest intact one of these; return its client files."""
        for done in reversed(rounds):
            try:
                clients = self._read(done)["clients"]
            except DamagedError:
                continue
            self.rounds.append(done)
            return clients
        return NO_CLIENT_FILES

    def _read(self, done: int) -> dict[str, Array]:
        """Read a checkpoint; raise a DamagedError if it is not that of the round."""
        arrays = read(self._path(done))
        clients = arrays.get("clients", np.zeros([]))
        if arrays.get("round") != done or clients.shape[1:] != (3,) or "format" not in arrays:
            raise DamagedError(f"{self._path(done)}: not the state after round {done}")
        return arrays

    def _unpack(self, done: int, arrays: Mapping[str, Array], like: Structure) -> Structure:
        expected = _layout(_named_arrays(like))
        stored = _layout({n: v for n, v in arrays.items() if n.startswith(_STATE)})
        if stored != expected or int(arrays["format"]) != FORMAT:
            differing = sorted({*expected.items()} ^ {*stored.items()})
            name = differing[0][0] if differing else "format"
            raise CheckpointError(
                f"{self._path(done)} must hold the state of this version, {len(expected)} arrays. "
                f"Received: {len(stored)} arrays, another {name}; a run of another version cannot "
                "be resumed"
            )
        return tf.nest.pack_sequence_as(like, [arrays[name] for name in expected])

    def _check_no_old_format(self) -> None:
        old = [name for name in os.listdir(self._folder) if _OLD_NAME.fullmatch(name)]
        if old:
            raise CheckpointError(
                f"{self._folder} must hold checkpoints of this version, such as round_10.npz. "
                f"Received: {sorted(old)[-1]}; a run of another version cannot be resumed"
            )

    def _listing(self) -> list[int]:
        """Return the rounds that have a file, ascending; other files are left alone."""
        matches = (_NAME.fullmatch(name) for name in os.listdir(self._folder))
        rounds = sorted(int(match[1]) for match in matches if match)
        return [done for done in rounds if os.path.isfile(self._path(done))]

    def _path(self, done: int) -> str:
        return os.path.join(self._folder, f"round_{done}.npz")


def read(path: str) -> dict[str, Array]:
    """Read every array of a .npz file and verify its checksums.

    Raises:
      DamagedError: If the file is not as it was written, or cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
        if broken is not None:
            raise DamagedError(f"{path}: {broken} has another checksum")
        with np.load(path) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except DamagedError:
        raise
    except Exception as error:  # zipfile and NumPy raise some ten types for damaged files
        raise DamagedError(f"{path}: {error or type(error).__name__}".splitlines()[0]) from error


def _named_arrays(state: Structure) -> dict[str, Array]:
    """Return the arrays of a structure by position and name, in the order of `tf.nest`."""
    paths = [path for path, _ in tree.flatten_with_path(state)]
    return {
        _STATE + "/".join(map(str, (f"{i:04d}", *path))): np.asarray(value)
        for i, (path, value) in enumerate(zip(paths, tf.nest.flatten(state)))
    }


def _layout(arrays: Mapping[str, Array]) -> dict[str, tuple[tuple[int, ...], str]]:
    return {name: (value.shape, value.dtype.str) for name, value in arrays.items()}
