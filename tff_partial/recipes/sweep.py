"""Runs every combination of values of some flags, as a recipe runs its rows.

    python run_experiment.py --task=mnist --sweep="learning_rate=0.01,0.1;seed=0..2" --jobs=2

The results folder has a folder for each setting and, in it, one for each seed, beside sweep.json,
which the report reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from tff_partial.core.fields import Value
from tff_partial.experiments import flags
from tff_partial.recipes import estimate, outcome, runner, sweep_plan, sweep_text
from tff_partial.recipes.plan import Plan
from tff_partial.recipes.sweep_plan import Options
from tff_partial.report import recipes as report_recipes
from tff_partial.report import sweeps, tables
from tff_partial.system import interrupts


@dataclasses.dataclass(frozen=True)
class SweepResult:
    """Results of a sweep.

    Attributes:
      folder: Where they are.
      rows: For each setting, in order: its swept values by name, `mean` and `deviation` of the
        metric over the finished seeds, None where there is none, and the number of `seeds`.
      best: That of the rows which is best by the metric; None if none is finished.
      failed: The runs that failed, with the reason.
    """

    folder: str
    rows: tuple[Mapping[str, Any], ...]
    best: Optional[Mapping[str, Any]]
    failed: tuple[tuple[str, str], ...]


def sweep(
    over: Union[str, Mapping[str, Iterable[Value]]],
    jobs: int = 1,
    metric: str = "final_test_accuracy",
    **settings: Value,
) -> SweepResult:
    """Train every combination of some settings, each in a process of its own.

    Args:
      over: The values of each setting that varies, such as
        `{"learning_rate": [0.01, 0.1], "seed": range(3)}`, or as text, as --sweep has it.
      jobs: Runs at the same time; they share the cores.
      metric: What the best setting is chosen by: final_test_accuracy, best_test_accuracy,
        rounds_to_target or simulated_seconds_to_target.
      **settings: The other flags of run_experiment.py by name. A sweep with the `output_dir` of one
        that was stopped resumes it.

    Raises:
      ValueError: If a setting is wrong, in one line.
      KeyboardInterrupt: If it is interrupted; results up to then are in the folder.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    flags.check(given, {**flags.DECIDING, **flags.EXECUTING})
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1. Received: jobs={jobs}")
    options = Options(sweep_text.parse(over), given, metric=metric)
    plan, combinations = sweep_plan.create(options)
    done = runner.execute(plan, jobs, options.data_dir)
    if done.signal:
        raise KeyboardInterrupt
    section = report_recipes.read(str(plan.folder), str(plan.folder))
    best, rows = sweeps.best(section), {row.id: row for row in section.rows}
    results = {}
    for row_id, combination in combinations.items():
        spread = sweeps.spread_of(section, rows[row_id])
        figures = (
            {"mean": None, "deviation": None, "seeds": 0} if spread is None else spread._asdict()
        )
        results[row_id] = {**combination, **figures}
    chosen = None if best is None else results.get(best.id)
    return SweepResult(str(plan.folder), tuple(results.values()), chosen, tuple(done.failed))


def main(options: Options, jobs: int = 1, dry_run: bool = False) -> int:
    """Run a sweep and print its results; return the exit code.

    Raises:
      ValueError: If the input is wrong; nothing has been written then.
    """
    plan, _ = sweep_plan.create(options)
    if dry_run:
        print(estimate.table(plan))
        return 0
    done = runner.execute(plan, jobs, options.data_dir)
    interrupts.end_again_when_interrupted()
    print(table(plan))
    return runner.explain(plan, done, f"--output_dir={plan.folder} and the same flags")


def table(plan: Plan) -> str:
    """Return the settings with their accuracies, and which is the best."""
    section = report_recipes.read(str(plan.folder), str(plan.folder))
    shown = tables.costs(section)
    lines = [[line.head, *(cell.text for cell in line.cells)] for line in shown.lines]
    parts = [shown.caption, outcome.aligned([shown.heads, *lines]), sweeps.verdict(section)]
    return "\n\n".join(filter(None, [*parts, outcome.embedded(plan)]))
