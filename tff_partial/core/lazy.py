"""TensorFlow and TFF, imported on first use.

Importing both takes five seconds. Commands that only need names and dataclasses (`--help`,
`--list`, the check of flags) run without them, so modules of this package write
`from tff_partial.core.lazy import tf, tff`.
"""

from __future__ import annotations

import importlib
import types
from typing import TYPE_CHECKING

__all__ = ["tf", "tff"]


class _LazyModule(types.ModuleType):
    """Imports its module when an attribute is read for the first time."""

    def __getattr__(self, name: str) -> object:
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import tensorflow as tf
    import tensorflow_federated as tff
else:
    tf, tff = _LazyModule("tensorflow"), _LazyModule("tensorflow_federated")
