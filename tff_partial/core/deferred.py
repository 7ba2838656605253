"""Puts off modules that TensorFlow and TFF import but a run does not need.

TensorFlow Lite and TFF import jax, TFF's aggregators TensorFlow Probability and scipy.stats, its
programs vizier: a third of the time that both take to import. Such a module is run when one of its
attributes is read for the first time, so nobody sees a difference.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.abc
import importlib.machinery
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

# Whoever imports them reads no attribute of theirs at once. TensorFlow has its API several times.
UNUSED = (
    *(f"tensorflow.{api}lite" for api in ("_api.v2.", "compat.v1.", "compat.v2.")),
    *(f"tensorflow._api.v2.compat.{version}.lite" for version in ("v1", "v2")),
    "tensorflow_federated.python.core.environments.jax",
    "tensorflow_federated.python.learning.programs",
    "tensorflow_probability",
    "dp_accounting.pld",
    "scipy.stats",
)


@contextlib.contextmanager
def quick_imports(names: Sequence[str] = UNUSED) -> Iterator[None]:
    """Run modules of these names only when they are used, and collect no garbage meanwhile.

    Imports make a million objects, and hardly one is garbage: the search takes a fourth of their
    time.
    """
    finder, collects = _Finder(frozenset(names)), gc.isenabled()
    sys.meta_path.insert(0, finder)
    gc.disable()
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        if collects:
            gc.enable()


class _State(NamedTuple):
    """What a deferred module is run with."""

    loader: importlib.abc.Loader
    path: Optional[list[str]]
    lock: threading.RLock


class _Deferred(types.ModuleType):
    """A module that has not been run."""

    def __getattr__(self, name: str) -> object:
        _run(self)
        return types.ModuleType.__getattribute__(self, name)

    def __dir__(self) -> list[str]:
        _run(self)
        return list(types.ModuleType.__dir__(self))


def _run(module: types.ModuleType) -> None:
    """Run a deferred module, unless that is under way in this very thread."""
    namespace = vars(module)
    state: Optional[_State] = namespace.get("_deferred")
    if state is None:
        return
    with state.lock:
        if namespace.pop("_deferred", None) is None:
            return
        if state.path is not None:
            namespace["__path__"] = state.path
        try:
            state.loader.exec_module(module)
        except BaseException:
            _defer(module, state)
            raise
        module.__class__ = types.ModuleType


def _defer(module: types.ModuleType, state: _State) -> None:
    # Without a path, what imports a part of a package runs the package first.
    vars(module).pop("__path__", None)
    vars(module)["_deferred"] = state
    module.__class__ = _Deferred


class _Loader(importlib.abc.Loader):
    """Makes deferred modules."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[types.ModuleType]:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        path = vars(module).get("__path__")
        _defer(module, _State(self._loader, path, threading.RLock()))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules to defer."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self,
        fullname: str,
        path: Optional[Sequence[str]],
        target: Optional[types.ModuleType] = None,
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname not in self._names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec
