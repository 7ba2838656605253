"""A run's folder: created for a new run, checked for one that resumes, locked while it runs."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib import metadata
from typing import Optional

from numpy.typing import ArrayLike

from tff_partial.results.schema import OLD_SETTINGS, Config, Fields
from tff_partial.results.text_files import ResultsError, read_json, write_json
from tff_partial.system import files, folder_lock

# What may differ when a run resumes, as it changes no round that is done: more rounds, and what is
# evaluated when. The schedule of the learning rate is one of rounds, whatever their number.
MAY_CHANGE = ("rounds", "eval_every", "eval_examples", "evaluate", "target_accuracy")
VERSIONED = ("tensorflow-federated", "tensorflow", "keras", "numpy", "jax", "jaxlib")
CONFIG = "config.json"
# What is left of a run that was killed before its config.json was written.
_BEGINNINGS = {folder_lock.NAME, CONFIG + files.TEMPORARY}


def prepare_folder(path: str, settings: Fields, execution: Fields) -> folder_lock.FolderLock:
    """Create the folder and its config.json, or check that it belongs to the same run.

    The same run may be given more rounds, and other settings of `MAY_CHANGE`.

    Returns:
      The lock on the folder, to be closed when the run ends.

    Raises:
      ResultsError: If it cannot be written, or holds a run with other settings.
      FolderInUseError: If another run uses it.
    """
    _check_folder(path, settings)
    config = Config(settings, execution, versions())
    try:
        os.makedirs(path, exist_ok=True)
        with contextlib.ExitStack() as on_error:
            lock = on_error.enter_context(folder_lock.FolderLock(path))
            _check_folder(path, settings)  # another run may have begun meanwhile
            write_json(os.path.join(path, CONFIG), dataclasses.asdict(config))
            files.sync(path)
            with contextlib.suppress(OSError):  # the parent may be unreadable
                files.sync(os.path.dirname(os.path.abspath(path)))
            on_error.pop_all()
        return lock
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # a fault of the machine, not a wrong name
        raise ResultsError(
            f"output_dir must be a folder that can be written. Received: {error}"
        ) from error


def _check_folder(path: str, settings: Fields) -> None:
    """Raise a ResultsError unless the folder is new or belongs to the same run."""
    previous = _read_settings(path)
    if previous is not None:
        differing = _differences(previous, settings)
        if differing:
            raise ResultsError(
                f"output_dir must be new or hold a run with the same settings. Received: {path} "
                f"with {'; '.join(differing)}"
            )
    elif os.path.isdir(path) and set(os.listdir(path)) - _BEGINNINGS:
        raise ResultsError(
            f"output_dir must be new, empty or a run's own folder. Received: {path}, which holds "
            "other files and no config.json"
        )


def _read_settings(path: str) -> Optional[Fields]:
    try:
        settings = read_json(os.path.join(path, CONFIG)).get("settings", {})
    except FileNotFoundError:
        return None
    except ResultsError as error:
        raise ResultsError(f"config.json must be readable. Received: {error}") from error
    if not isinstance(settings, dict):
        raise ResultsError(f"config.json must have settings. Received: {path}")
    return settings


def _differences(old: Fields, new: Fields) -> list[str]:
    old, new = ({**OLD_SETTINGS, **json.loads(json.dumps(each))} for each in (old, new))
    differing = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    return [
        f"{name}={old.get(name)!r} there, {new.get(name)!r} now"
        for name in differing
        if name not in MAY_CHANGE or (name == "rounds" and _is_shorter(old, new))
    ]


def _is_shorter(old: Fields, new: Fields) -> bool:
    before, now = old.get("rounds"), new.get("rounds")
    return not (isinstance(before, int) and isinstance(now, int) and before <= now)


def versions() -> dict[str, str]:
    """Return the versions of what a result depends on, and the revision of this project."""
    packages = {name: metadata.version(name) for name in VERSIONED}
    return {"python": platform.python_version(), "revision": _revision(), **packages}


def _revision() -> str:
    folder = os.path.dirname(os.path.abspath(__file__))
    command = ["git", "-C", folder, "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def save_weights(path: str, names: Sequence[str], values: Sequence[ArrayLike]) -> None:
    """Save the model's weights by name, as an .npz file."""
    arrays = {f"{i:03d} {name}": value for i, (name, value) in enumerate(zip(names, values))}
    files.write(path, files.npz(arrays))
