"""Keeps traced computations on disk, so that later runs with the same graphs start sooner.

A file is found by a hash of everything that enters a graph: the settings, the shapes of the data,
the source of this project, the versions of the packages and whether there is a GPU. What does not
enter, such as the seed and the number of rounds, is listed in `NOT_IN_GRAPHS`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Mapping
from importlib import metadata
from typing import Optional

from tff_partial.core.lazy import tf
from tff_partial.experiments.bundled import models, tasks
from tff_partial.experiments.config import Experiment
from tff_partial.system import files

# Settings that change no graph: a test builds each process with other values of them.
NOT_IN_GRAPHS = (
    "seed",
    "rounds",
    "sampler",
    "sampling",
    "aggregation",
    "robust_clip",
    "secure_bound",
    "dp_noise_multiplier",
    "dp_clip",
    "dp_delta",
    "target_epsilon",
    "eval_every",
    "eval_examples",
    "evaluate",
    "partition",
    "target_accuracy",
)
_LIMIT = 512 * 2**20  # bytes of all files; the oldest go first
_PACKAGES = ("tensorflow", "tensorflow-federated", "keras", "numpy", "tff-partial")


class TraceCache:
    """A `core.tracing.Store` in a folder, for one experiment."""

    def __init__(self, folder: str, settings: Mapping[str, object]) -> None:
        """Keep files in a folder.

        Args:
          folder: The folder; it is made when there is something to keep.
          settings: All that enters a graph and is no part of the installation.
        """
        self._folder = folder
        self._key = json.dumps([_installation(), settings], sort_keys=True, default=repr)

    def get(self, name: str) -> Optional[bytes]:
        path = self._path(name)
        try:
            content = pathlib.Path(path).read_bytes()
        except OSError:
            return None
        digest, kept = content[:32], content[32:]
        if hashlib.sha256(kept).digest() != digest:
            return None  # damaged: it is traced again
        with contextlib.suppress(OSError):
            os.utime(path)
        return kept

    def put(self, name: str, content: bytes) -> None:
        # A full disk or a folder that cannot be written must not end a run.
        with contextlib.suppress(OSError):
            os.makedirs(self._folder, exist_ok=True)
            files.write(self._path(name), hashlib.sha256(content).digest() + content, synced=False)
            _remove_oldest(self._folder)

    def _path(self, name: str) -> str:
        digest = hashlib.sha256(f"{self._key}\n{name}".encode()).hexdigest()
        return os.path.join(self._folder, f"{digest}.trace")


def create(folder: str, experiment: Experiment, data: tasks.FederatedData) -> Optional[TraceCache]:
    """Return the cache of an experiment in a folder, `auto` or `none`.

    There is none where code of the user's enters the graphs: nobody knows what that depends on.
    """
    if folder == "none" or experiment.has_own_code:
        return None
    return TraceCache(_user_folder() if folder == "auto" else folder, settings_of(experiment, data))


def _user_folder() -> str:
    parent = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(parent, "tff_partial", "traces")


def settings_of(experiment: Experiment, data: tasks.FederatedData) -> dict[str, object]:
    """Return what enters the graphs of an experiment."""
    identity = {
        **experiment.identity(data),
        "params": dict(experiment.params),  # folders included
        "examples": [*data.input_shape, data.num_classes, str(data.x_dtype)],
    }
    return {name: value for name, value in identity.items() if name not in NOT_IN_GRAPHS}


@functools.cache
def _installation() -> list[object]:
    """Return what else enters a graph: source, versions, devices."""
    digest = hashlib.sha256()
    for package in (sys.modules["tff_partial"], models, tasks):
        root = pathlib.Path(str(package.__file__)).parent
        for path in sorted(root.rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    versions = {name: metadata.version(name) for name in _PACKAGES}
    return [
        digest.hexdigest(),
        sys.version,
        versions,
        len(tf.config.list_physical_devices("GPU")),
        os.environ.get("TF_ENABLE_ONEDNN_OPTS"),
    ]


def _remove_oldest(folder: str) -> None:
    entries = [entry for entry in os.scandir(folder) if entry.name.endswith(".trace")]
    by_age = sorted(entries, key=lambda entry: entry.stat().st_mtime, reverse=True)
    size = 0
    for entry in by_age:
        size += entry.stat().st_size
        if size > _LIMIT:
            files.remove(entry.path)
