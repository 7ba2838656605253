"""summary.json: what a run came to, computed from its metrics."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Optional

from tff_partial import tiers
from tff_partial.results import metrics
from tff_partial.results.checks import Json
from tff_partial.results.schema import Fields, MetricsRow

_LAST_ROUNDS = 5


def summarize(
    settings: Fields, data: str, rows: Sequence[MetricsRow], diverged_at_round: Optional[int] = None
) -> dict[str, Json]:
    """Return the summary of a run; `average_capacity` may be added to its settings.

    Final and best accuracy are those of rounds that were tested on all examples. The target may
    have been reached on a sample; then the sample's size and best accuracy are there too.
    """
    accuracies = metrics.values(rows, "test_accuracy")
    target = settings.get("target_accuracy")
    return {
        "task": settings["task"],
        "algo": settings["algo"],
        "data": data,
        "rounds": len(rows),
        "average_capacity": settings.get("average_capacity"),
        **_tiers(settings, rows),
        "final_test_accuracy": accuracies[-1] if accuracies else None,
        **_where_clients_are(settings, rows),
        **_privacy(settings, rows),
        "best_test_accuracy": max(accuracies, default=None),
        "target_accuracy": target,
        "rounds_to_target": metrics.rounds_to(rows, target),
        **_sampled(rows),
        "seconds_per_round_median": (
            statistics.median(row["seconds"] for row in rows) if rows else None
        ),
        **({"diverged_at_round": diverged_at_round} if diverged_at_round else {}),
    }


def _sampled(rows: Sequence[MetricsRow]) -> dict[str, Json]:
    """Return the size of the sample that rounds were tested on, and the best accuracy there."""
    examples = metrics.sample_size(rows)
    if examples is None:
        return {}
    best = max(metrics.values(rows, metrics.SAMPLED_ACCURACY))
    return {"sampled_test_examples": examples, "best_sampled_test_accuracy": best}


def _tiers(settings: Fields, rows: Sequence[MetricsRow]) -> dict[str, Json]:
    """Return the tiers, and each one's training accuracy in the last rounds it took part in."""
    kind = "capacities" if settings.get("capacities") else "tiers"
    summary: dict[str, Json] = {kind: settings[kind]} if settings.get(kind) else {}
    if settings.get("aggregation") == "dp":
        return summary  # nothing is said of training
    for name in tier_names(settings):
        column = f"train_accuracy_{name}"
        values = metrics.values([r for r in rows if r.get(f"clients_{name}")], column)
        summary[column] = statistics.mean(values[-_LAST_ROUNDS:]) if values else None
    return summary


def _where_clients_are(settings: Fields, rows: Sequence[MetricsRow]) -> dict[str, Json]:
    """Return the final accuracy of each tier's model and over clients, where they were tested."""
    columns = [f"test_accuracy_{name}" for name in tier_names(settings)]
    columns += [f"test_client_accuracy_{name}" for name in metrics.OVER_CLIENTS]
    found = {column: metrics.values(rows, column) for column in columns}
    return {f"final_{column}": values[-1] for column, values in found.items() if values}


def _privacy(settings: Fields, rows: Sequence[MetricsRow]) -> dict[str, Json]:
    """Return epsilon after the last round, with what it is for; None without noise."""
    if settings.get("aggregation") != "dp":
        return {}
    names = ("dp_delta", "dp_noise_multiplier", "dp_clip", "sampling")
    epsilon = rows[-1].get("epsilon") if rows else None
    return {"epsilon": epsilon, **{name: settings.get(name) for name in names}}


def tier_names(settings: Fields) -> list[str]:
    """Return what columns call a run's tiers, or the rates that its clients draw."""
    if settings.get("capacities"):
        return [tier.label for tier in tiers.parse_drawn(settings["capacities"])]
    return [tier.label for tier in tiers.parse(settings["tiers"])] if settings.get("tiers") else []


def diverged_at(summary: Fields) -> Optional[int]:
    """Return the round in which a run diverged; None if it did not."""
    round_num = summary.get("diverged_at_round")
    return round_num if isinstance(round_num, int) and round_num > 0 else None


def format_table(values: Fields) -> str:
    """Format a summary as two columns for the terminal."""

    def text(value: Json) -> str:
        if value is None:
            return "-"
        return f"{value:.4f}" if isinstance(value, float) else str(value)

    width = max(len(name) for name in values)
    return "\n".join(f"{name:<{width}}  {text(value)}" for name, value in values.items())
