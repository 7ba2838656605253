"""What --describe prints: what an algorithm is, and which flags it has."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tff_partial.algorithms import registry
from tff_partial.experiments.config import Experiment


def text(experiment: Experiment, settings: Iterable[str]) -> str:
    """Return the description of an experiment's algorithm, its paper and its flags.

    Args:
      experiment: The experiment that the other flags describe.
      settings: The settings that are flags.
    """
    algorithm = registry.ALGORITHMS[experiment.algo]
    # Citation, pseudo-code and differences from the paper.
    paper = (sys.modules[algorithm.params.__module__].__doc__ or "").strip()
    lines = [f"{algorithm.name}: {algorithm.title}", "", paper, "", "Its own flags:"]
    lines += [f"  --{algorithm.name}_{h.name}: {h.help}" for h in algorithm.hyperparameters]
    lines += ["", f"Shared flags, with --task={experiment.task.name} --preset={experiment.preset}:"]
    has_tiers = "tiers" in algorithm.needs
    heeded = {"tiers": has_tiers, "only_tiers": has_tiers, "capacities": algorithm.tiers_are_rates}
    for setting in settings:
        value = getattr(experiment.settings, setting)
        if heeded.get(setting, True):
            lines.append(f"  --{setting}" + (" (none)" if value in (None, "") else f"={value}"))
    if experiment.normalization is not None:
        lines.append(f"  --normalization={experiment.normalization}")
    return "\n".join(lines)
