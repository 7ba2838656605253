"""What an algorithm is and which flags it has: `--describe`, and the lines of `--help`."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterable
from typing import Any

from tff_partial.algorithms.registry import Algorithm

# Settings that only some algorithms heed, and the trait of those that do.
_HEEDED = {"tiers": "has_tiers", "only_tiers": "has_tiers", "capacities": "has_rates"}


def fields_of(params: type) -> dict[str, str]:
    """Returns what the docstrings of a dataclass and its bases say of its fields, by name."""
    found: dict[str, str] = {}
    for base in reversed(params.__mro__):
        _, _, section = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")
        for name, text in re.findall(r"^  (\w+): (.*(?:\n    .*)*)", section, re.MULTILINE):
            found[name] = " ".join(text.split())
    return found


def help_of(params: type, name: str) -> str:
    """Returns the line of --help of a hyperparameter.

    Raises:
      ValueError: If its dataclass does not say what it is.
    """
    documented = fields_of(params)
    if name not in documented:
        raise ValueError(
            f"{params.__module__}.{params.__name__} must describe {name} below 'Attributes:' of "
            f"its docstring. Received: {sorted(documented)}"
        )
    default = {field.name: field.default for field in dataclasses.fields(params)}[name]
    return f"{documented[name]} Default: {'none' if default in (None, '') else default}."


def text(
    name: str,
    algorithm: Algorithm,
    names: Iterable[str],
    settings: Iterable[str],
    experiment: Any,
) -> str:
    """Returns what --describe prints.

    Args:
      name: The algorithm's name.
      algorithm: Its entry in the registry.
      names: Its hyperparameters that are flags.
      settings: The settings that are flags.
      experiment: The experiment that the other flags describe.
    """
    lines = [f"{name}: {algorithm.title}", "", _paper(algorithm), "", "Its own flags:"]
    lines += [f"  --{name}_{field}: {help_of(algorithm.params, field)}" for field in names]
    lines += ["", f"Shared flags, with --task={experiment.task.name} --preset={experiment.preset}:"]
    for setting in settings:
        value, trait = getattr(experiment.settings, setting), _HEEDED.get(setting)
        if trait is None or getattr(algorithm, trait):
            lines.append(f"  --{setting}" + (" (none)" if value in (None, "") else f"={value}"))
    if experiment.normalization is not None:
        lines.append(f"  --normalization={experiment.normalization}")
    return "\n".join(lines)


def _paper(algorithm: Algorithm) -> str:
    """Citation, pseudo-code and differences: the docstring of the algorithm's module."""
    return (sys.modules[algorithm.build.__module__].__doc__ or "").strip()
