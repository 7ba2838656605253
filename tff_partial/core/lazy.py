"""TensorFlow and TFF, imported on first use.

Together they take five seconds to import. Everything that answers from names and
dataclasses alone (`--help`, `--list`, the check of flags) gets by without them, so modules of
this package write `from tff_partial.lazy import tf, tff`.
"""

from __future__ import annotations

import importlib
import types
from typing import Any


class _LazyModule(types.ModuleType):
    """Stands for a module until an attribute of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


tf: Any = _LazyModule("tensorflow")
tff: Any = _LazyModule("tensorflow_federated")
