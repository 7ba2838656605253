"""The tables of a section, the same for the page and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from tff_partial import tiers
from tff_partial.report import cells, comparison, sweeps
from tff_partial.report.cells import Cell, Line, Table
from tff_partial.report.recipes import Section
from tff_partial.report.runs import Row, Run
from tff_partial.results import metrics, neurons
from tff_partial.results.schema import Fields

MEGABYTE = 1e-6
_RARE = 0.01  # capacities that are drawn less often are not shown
# Figures of the final accuracy on each client's labels -> heads.
_OVER_CLIENTS = {
    "mean": "mean over clients, %",
    "lowest_tenth": "lowest tenth of clients, %",
    "spread": "standard deviation over clients, %",
}
# Figures of a tier in config.json -> heads.
_TIER_COSTS = {
    "memory": "memory",
    "compute": "compute",
    "parameters": "parameters",
    "bytes_down": "MB down",
    "bytes_up": "MB up",
}
# Figures of similarity.csv -> heads.
_SIMILARITIES = {"maximum": "largest similarity", "mean": "mean similarity"}


def of_section(section: Section) -> list[Table]:
    """Return the tables that have something to say of a section."""
    runs = [run for row in section.rows for run in row.runs]
    tables = [comparison.compared(section)] if section.results.recipe else []
    if any(run.similarity for run in runs):
        tables.append(similarity(section))
    if any(run.activations for run in runs):
        tables.append(activations(section))
    if any(run.rows for run in runs):
        tables.append(costs(section))
        if any(run.settings.get("tiers") or run.settings.get("capacities") for run in runs):
            tables.append(tier_overview(section))
    return tables


def similarity(section: Section) -> Table:
    """Return how similar clients' models are in the last measurement, block by block."""
    heads = ("row", "scheme", "block", *_SIMILARITIES.values(), "local steps")
    lines = [line for row in section.rows for line in _similarity_lines(row)]
    caption = "Similarity (SVCCA) of clients' models at the end, over all pairs of clients"
    return Table(caption, heads, tuple(lines))


def activations(section: Section) -> Table:
    """Return how many of their most active neurons clients have in common, layer by layer."""
    heads = ("row", "layer", "neurons", "least in common, %", "mean, %", "most, %", "seeds")
    lines = []
    for row in section.rows:
        seeds = [neurons.table(run.activations)[1:] for run in row.finished if run.activations]
        for same in zip(*seeds):  # the lines of a layer, one for each seed
            name, size, *_ = same[0]
            figures = [metrics.spread(float(line[i]) for line in same) for i in (2, 3, 4)]
            texts = [cells.with_spread(figure, cells.one_decimal) for figure in figures]
            line = tuple(map(Cell, (name, size, *texts, str(len(same)))))
            lines.append(Line(row.label, line, row.is_real))
    caption = "Most active third of each layer that two clients have in common; by chance 33 %"
    return Table(caption, heads, tuple(lines))


def _similarity_lines(row: Row) -> list[Line]:
    # The rows are in the order of time, so that the last of each scheme and block stays.
    runs = [
        {(r["scheme"], r["name"]): r for r in run.similarity}
        for run in row.finished
        if run.similarity
    ]
    lines = []
    for scheme, block in dict.fromkeys(key for run in runs for key in run):
        last = [run[scheme, block] for run in runs if (scheme, block) in run]
        spreads = [metrics.spread(float(r[name]) for r in last) for name in _SIMILARITIES]
        texts = (
            scheme,
            block,
            *(cells.with_spread(spread, cells.significant) for spread in spreads),
            cells.one_decimal(float(last[0]["steps"])),
        )
        lines.append(Line(row.label, tuple(map(Cell, texts)), row.is_real))
    return lines


def costs(section: Section) -> Table:
    """Return the accuracies and, if there is a target, what it took to reach it."""
    is_recipe, best = bool(section.results.recipe), sweeps.best(section)
    names = [] if is_recipe else cells.varied(section)
    runs = [run for row in section.rows for run in row.runs]
    has_target = any(run.target for run in runs)
    has_late = any("clients_late" in run.rows[0] for run in runs if run.rows)
    heads = [
        "setting" if sweeps.is_sweep(section) else "row",
        *names,
        "final accuracy, %",
        "best accuracy, %",
    ]
    if has_target:
        heads += ["target, %", "rounds to target", "simulated s to target", "MB to target"]
    over_clients = any("final_test_client_accuracy_mean" in run.summary for run in runs)
    heads += list(_OVER_CLIENTS.values()) if over_clients else []
    heads += [*(["late clients a round"] if has_late else []), "rounds", "seeds"]
    lines = []
    for row in section.rows:
        line = cells.varied_cells(row, names)
        for name in ("final_test_accuracy", "best_test_accuracy"):
            spread = row.spread_of(name)
            is_best = row is best and name == section.results.metric.name
            shown = cells.with_spread(spread, cells.percent, cells.PERCENT)
            line.append(Cell(shown, "better" if is_best else ""))
        line += _to_target(row) if has_target else []
        for name in _OVER_CLIENTS if over_clients else ():
            spread = row.spread_of(f"final_test_client_accuracy_{name}")
            line.append(Cell(cells.with_spread(spread, cells.percent, cells.PERCENT)))
        line += [Cell(_mean_column(row, "clients_late"))] if has_late else []
        head = row.label if is_recipe else row.short or row.label
        lines.append(Line(head, (*line, _rounds(row), cells.seeds(row)), row.is_real))
    caption = "Accuracy on test data" + (", and what the target took" if has_target else "")
    return Table(f"{caption}; mean ± standard deviation over seeds", tuple(heads), tuple(lines))


def _to_target(row: Row) -> list[Cell]:
    targets = sorted({run.target for run in row.counted if run.target is not None})
    if not targets:
        return [Cell(cells.NONE)] * 4
    shown = Cell(", ".join(map(cells.target_text, targets)))
    costs = [metrics.cost_to(run.rows, run.target) for run in row.counted]
    reached = [cost for cost in costs if cost]
    if not reached:
        return [shown, Cell("not reached", "missing"), *[Cell(cells.NONE)] * 2]
    some = f" ({len(reached)} of {len(costs)} seeds)" if len(reached) < len(costs) else ""
    some += row.sample_note

    def cell(values: Sequence[Optional[float]], text: cells.Format, factor: float = 1.0) -> Cell:
        spread = metrics.spread(value for value in values if value is not None)
        return Cell(cells.with_spread(spread, text, factor) + (some if spread else ""))

    return [
        shown,
        cell([cost.rounds for cost in reached], cells.one_decimal),
        cell([cost.simulated_seconds for cost in reached], cells.significant),
        cell([cost.bytes for cost in reached], cells.significant, MEGABYTE),
    ]


def tier_overview(section: Section) -> Table:
    """Return what tiers there are, what they take, who took part, and how well each learned."""
    runs = [run for row in section.rows for run in row.runs]
    has_costs = any(run.tier_costs for run in runs)
    is_tested = any(f"final_test_accuracy_{t.label}" in r.summary for r in runs for t in _known(r))
    heads = ["row", "average capacity", "tier", "clients", "clients a round"]
    heads += list(_TIER_COSTS.values()) if has_costs else []
    heads += ["training accuracy, %", *(["test accuracy, %"] if is_tested else [])]
    lines = [
        line for row in section.rows if row.runs for line in _tier_lines(row, has_costs, is_tested)
    ]
    caption = "Tiers and capacity; training accuracy of the last five rounds of each tier"
    caption += "; final test accuracy of what its clients would deploy" if is_tested else ""
    return Table(caption, tuple(heads), tuple(lines))


def _known(run: Run) -> list[tiers.Tier]:
    return [*_tiers(run.settings)]


def _tier_lines(row: Row, has_costs: bool, is_tested: bool) -> list[Line]:
    spread = row.spread_of("average_capacity")
    capacity = cells.NONE if spread is None else cells.significant(spread.mean)
    run, lines = row.counted[0], []
    for tier, count in _tiers(run.settings).items():
        texts = [capacity, tier.name, count, _mean_column(row, f"clients_{tier.label}")]
        texts += _tier_costs(run, tier) if has_costs else []
        names = [f"train_accuracy_{tier.label}"]
        names += [f"final_test_accuracy_{tier.label}"] if is_tested else []
        accuracies = [row.spread_of(name) for name in names]
        texts += [cells.with_spread(each, cells.percent, cells.PERCENT) for each in accuracies]
        lines.append(Line(row.label, tuple(map(Cell, texts)), row.is_real))
    return lines


def _tier_costs(run: Run, tier: tiers.Tier) -> list[str]:
    known = run.tier_costs.get(tier.label, {})
    factors = {"bytes_down": MEGABYTE, "bytes_up": MEGABYTE}
    return [
        cells.significant(known[name] * factors.get(name, 1)) if name in known else cells.NONE
        for name in _TIER_COSTS
    ]


def _tiers(settings: Fields) -> dict[tiers.Tier, str]:
    """Return tier -> its clients; if capacities are drawn, rate -> how often."""
    if settings.get("capacities"):
        shares = tiers.parse_drawn(settings["capacities"])
        return {
            tier: f"{cells.PERCENT * share:.3g} % of draws"
            for tier, share in shares.items()
            if share >= _RARE
        }
    text = settings.get("tiers") or f"strong:{settings.get('clients', 1)}"
    parsed = tiers.parse(text, clients=settings.get("clients"))
    return {tier: str(tier.count) for tier in parsed}


def _mean_column(row: Row, column: str) -> str:
    """Return the mean of a column of metrics.csv over all rounds and seeds."""
    spread = metrics.spread(v for run in row.counted for v in metrics.values(run.rows, column))
    return cells.NONE if spread is None else cells.significant(spread.mean)


def _rounds(row: Row) -> Cell:
    if not row.runs:
        return Cell("not run", "missing")
    if row.finished:
        return Cell(cells.one_decimal(max(len(run.rows) for run in row.finished)))
    return Cell(f"{len(row.furthest.rows)} of {row.furthest.planned}", "missing")
