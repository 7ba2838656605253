"""The algorithms by name: one line each. Flags, the README's table and the tests read it."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

from tff_partial.algorithms import fedavg


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """An entry of the registry.

    Attributes:
      build: (ModelSpec, Params) -> process.
      params: The frozen dataclass of its hyperparameters; its field `local` is LocalTraining.
      title: What it is, in a line.
      paper: Whose hyperparameters `--preset=paper` takes, a key of `Task.papers`; '' for the
        task's default.
      has_tiers: Whether clients of different tiers are treated differently.
    """

    build: Callable[[Any, Any], Any]
    params: type
    title: str
    paper: str = ""
    has_tiers: bool = False


ALGORITHMS: dict[str, Algorithm] = {
    "fedavg": Algorithm(fedavg.build, fedavg.Params, "every client trains the whole model"),
}
