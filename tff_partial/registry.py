"""The algorithms by name: one line each. Flags, the README's table and the tests read it."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

from tff_partial.algorithms import channel, embracing, fedavg, fedpmt, prefix


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """An entry of the registry.

    Attributes:
      build: (ModelSpec, Params) -> process.
      cost: (ModelSpec, Params, tier's name) -> what a round costs a client, `costs.ClientCost`.
      params: The frozen dataclass of its hyperparameters; its field `local` is LocalTraining.
      title: What it is, in a line.
      paper: Whose hyperparameters `--preset=paper` takes, a key of `Task.papers`; '' for the
        task's default.
      has_tiers: Whether clients of different tiers are treated differently.
    """

    build: Callable[[Any, Any], Any]
    cost: Callable[[Any, Any, str], Any]
    params: type
    title: str
    paper: str = ""
    has_tiers: bool = False


def _entry(module: Any, title: str, paper: str = "") -> Algorithm:
    has_tiers = any(field.name == "tiers" for field in dataclasses.fields(module.Params))
    return Algorithm(module.build, module.cost, module.Params, title, paper, has_tiers)


ALGORITHMS: dict[str, Algorithm] = {
    "fedavg": _entry(fedavg, "every client trains the whole model"),
    "embracing": _entry(
        embracing, "weak clients train output-side layers on recorded activations", "embracingfl"
    ),
    "fedpmt": _entry(fedpmt, "back-propagation stops early", "fedpmt"),
    "prefix": _entry(prefix, "weak clients train input-side layers (ablation)", "embracingfl"),
    "channel": _entry(channel, "weak clients share half of the channels (ablation)", "embracingfl"),
}
