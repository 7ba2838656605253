"""TensorFlow and TFF, imported on first use.

Importing both takes seconds. Commands that only need names and dataclasses (`--help`,
`--list`, the check of flags) run without them, so modules of this package write
`from tff_partial.core.lazy import tf, tff`.
"""

from __future__ import annotations

import gc
import importlib
import sys
import types
from typing import TYPE_CHECKING

from tff_partial.core import deferred

__all__ = ["load", "tf", "tff"]

_TENSORFLOW, _TFF = "tensorflow", "tensorflow_federated"
_loaded: set[str] = set()


class _LazyModule(types.ModuleType):
    """Imports its module when an attribute is read for the first time."""

    def __getattr__(self, name: str) -> object:
        value = getattr(_load(self.__name__), name)
        setattr(self, name, value)
        return value


def load() -> None:
    """Import both, now. To be called before modules are imported that import them themselves."""
    for name in (_TENSORFLOW, _TFF):
        _load(name)


def _load(name: str) -> types.ModuleType:
    if name not in sys.modules:
        is_first = _TENSORFLOW not in sys.modules
        with deferred.quick_imports():
            importlib.import_module(name)
        _loaded.update({name, _TENSORFLOW} if is_first else {name})
        if _TENSORFLOW in _loaded:
            # What is there now stays, and need not be searched for garbage again and again. A
            # program that imported TensorFlow itself may have objects that do not stay.
            gc.freeze()
    return sys.modules[name]


if TYPE_CHECKING:
    import tensorflow as tf
    import tensorflow_federated as tff
else:
    tf, tff = _LazyModule(_TENSORFLOW), _LazyModule(_TFF)
