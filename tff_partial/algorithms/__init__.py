"""One file an algorithm; `tff_partial.algorithms.registry` lists them."""

from __future__ import annotations

import importlib
import types


def __getattr__(name: str) -> types.ModuleType:
    """Import an algorithm when it is used: `tff_partial.algorithms.fedavg`."""
    full_name = f"{__name__}.{name}"
    try:
        return importlib.import_module(full_name)
    except ModuleNotFoundError as error:
        if error.name != full_name:
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
