"""What a results folder holds: config.json, summary.json, metrics.csv, recipe.json, sweep.json.

Runs and recipes write these files, the report reads them. A reader ignores keys that it does not
know, so that folders of older and newer versions stay readable.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Optional

from typing_extensions import TypeAlias

from tff_partial.results.checks import Json, fail

Fields: TypeAlias = Mapping[str, Json]
"""An object of a JSON document, such as the settings of config.json or all of summary.json."""

MetricsRow: TypeAlias = Mapping[str, Any]
"""A round of metrics.csv: column -> number, None where the cell is empty."""

# What a recipe is -> how its figures were obtained.
KINDS = {"runs": "trained", "exact": "computed exactly", "analysis": "analysis of trained models"}
# Optimisers, sampling and aggregation that no preset changes.
OPTIMIZERS = {
    "local_optimizer": "sgd",
    "local_beta_1": 0.9,
    "local_beta_2": 0.999,
    "local_epsilon": 1e-7,
    "server_optimizer": "sgd",
    "server_learning_rate": None,
    "server_beta_1": 0.9,
    "server_beta_2": 0.99,
    "server_tau": 1e-3,
    "sampler": "",
    "sampling": "fixed",
    "aggregation": "mean",
    "robust_clip": None,
    "secure_bound": 1000.0,
    "dp_noise_multiplier": None,
    "dp_clip": None,
    "dp_delta": None,
    "target_epsilon": None,
}
# Settings that older runs lack, as they were then.
OLD_SETTINGS = {
    "weight_decay_on": "kernels",
    "precision": "float32",
    "record_precision": "float32",
    "evaluate": "server",
    **OPTIMIZERS,
}
RECIPE_FILE, SWEEP_FILE = "recipe.json", "sweep.json"
TO_TARGET = "_to_target"  # the end of the names of metrics that count up to a target accuracy


@dataclasses.dataclass(frozen=True)
class Config:
    """config.json: what a run is.

    Attributes:
      settings: What decides the result; when a run resumes, only more rounds and what is evaluated
        may change (`folder.MAY_CHANGE`).
      execution: Where and how it runs, which may change. `data_is_real` tells whether the data are
        the set that the task names, `paper` whose preset it is.
      versions: Of Python, of the packages and of this project.
    """

    settings: Fields = dataclasses.field(default_factory=dict)
    execution: Fields = dataclasses.field(default_factory=dict)
    versions: Fields = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class KnownSettings:
    """The settings of config.json that a reader computes with; others it shows as they are."""

    task: str
    algo: str
    data: str
    tiers: str = ""
    clients: Optional[int] = None
    rounds: int = 0
    seed: int = 0
    preset: Optional[str] = None
    source: Optional[str] = None
    capacities: Optional[str] = None
    target_accuracy: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Metric:
    """What the table of a recipe compares.

    Attributes:
      name: A key of summary.json.
      label: The heading of the column.
      unit: The unit of the paper's numbers; ours are multiplied by 100 if it is '%'.
      higher_is_better: None if neither is, as in exact tables.
    """

    name: str
    label: str
    unit: str = ""
    higher_is_better: Optional[bool] = None

    @property
    def factor(self) -> float:
        return 100.0 if self.unit == "%" else 1.0

    @property
    def has_target(self) -> bool:
        return self.name.endswith(TO_TARGET)


@dataclasses.dataclass(frozen=True)
class Target:
    """The number that a paper prints for a target accuracy; None if it is not reached."""

    target: float
    value: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Published:
    """What a paper prints for a row, in the metric's unit: `value ± spread`, or words."""

    value: Optional[float] = None
    spread: Optional[float] = None
    text: str = ""
    targets: tuple[Target, ...] = ()


@dataclasses.dataclass(frozen=True)
class RecipeRow:
    """A row of a recipe; its runs are in the folders `<id>/seed-<k>`.

    Attributes:
      id: The name of its folder.
      label: What tables and legends call it.
      columns: What is varied -> its value here.
      command: Repeats the row; it names no folder of the machine.
      stands_in: Whether its data stand in for the paper's, even if they are real.
      paper: What the paper prints.
    """

    id: str
    label: str
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    command: str = ""
    stands_in: bool = False
    paper: Published = dataclasses.field(default_factory=Published)

    def __post_init__(self) -> None:
        if self.id in ("", ".", "..") or os.path.basename(self.id) != self.id:
            fail("a row's id", "be the name of a folder", self.id)


@dataclasses.dataclass(frozen=True)
class RecipeResults:
    """recipe.json or sweep.json: what runs there are, beside the folders of their rows.

    Attributes:
      recipe: Its name, such as `embracing/table3`; empty for a sweep and for single runs.
      title: What the table shows.
      paper: The citation.
      kind: A key of `KINDS`.
      metric: What is compared with the paper, or what the best setting is chosen by.
      rows: The rows that were run, in the paper's order.
      scale: The share of the paper's setting; 1 is the paper.
      scale_rule: How it was reduced.
      notes: What the paper leaves open, and how it is read here.
      given: Flags that replace what the scale makes of the paper's settings.
      reduced: Whether these are the recipe's reduced settings.
      differences: What differs from the paper's settings, such as `25 of 400 rounds`.
      all_rows: How many rows the recipe has.
    """

    recipe: str
    title: str
    paper: str
    kind: str
    metric: Metric
    rows: tuple[RecipeRow, ...]
    scale: Optional[float] = None
    scale_rule: str = ""
    notes: tuple[str, ...] = ()
    given: Fields = dataclasses.field(default_factory=dict)
    reduced: bool = False
    differences: str = ""
    all_rows: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            fail("kind", f"be one of {', '.join(KINDS)}", self.kind)
        if self.recipe and any(part in ("", ".", "..") for part in self.recipe.split("/")):
            fail("recipe", "be a name such as paper/table1", self.recipe)

    @property
    def file(self) -> str:
        """The name of the file that holds it."""
        return RECIPE_FILE if self.recipe else SWEEP_FILE


NO_RECIPE = RecipeResults("", "", "", "runs", Metric("", ""), ())
