"""What recipes may set and what may be given beside them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Optional

from tff_partial.experiments import flags
from tff_partial.recipes.schema import Recipe
from tff_partial.similarity import study
from tff_partial.similarity.schemes import FIGURES

# Flags that say where and how, not what: they may change when a recipe is started again.
EXECUTION = tuple(name for name in flags.EXECUTION if name != "data_dir")
OWN = ("algo", "preset", "paper")  # only the recipe says these
_PLACES = ("data", "data_dir", "seed", "output_dir")
# What a recipe of kind `analysis` may have as its source: a program with its arguments. A recipe is
# a file from anywhere, so nothing else is run.
ANALYSES: dict[str, Optional[int]] = {
    **{f"tff_partial.similarity --figure={number}": number for number in FIGURES},
    "tff_partial.activations": None,
}
# The file that each writes last.
RESULTS = {"tff_partial.similarity": "similarity.csv", "tff_partial.activations": "activations.csv"}
# What they take of a run's flags.
ANALYSIS = (*(name for name in study.SETTINGS if name != "seed"), "data", "data_dir")


def is_place(flag: str) -> bool:
    """Return whether a flag says where and how, folders included."""
    return flag in (*EXECUTION, "seed", "data") or flag.endswith("_dir")


def check_recipe(recipe: Recipe) -> None:
    """Refuse programs that are no known analysis, and settings that a recipe cannot make."""
    if recipe.kind == "analysis" and recipe.source not in ANALYSES:
        expected = f"{recipe.name}, source must be one of {', '.join(ANALYSES)}. "
        raise ValueError(f"{expected}Received: {recipe.source!r}")
    known = _known_settings(recipe.kind)
    for row in recipe.rows:
        reduced = {name: each.value for name, each in row.reduced.items()}
        unknown = sorted({*row.settings, *reduced} - known)
        if unknown:
            raise ValueError(
                f"{recipe.name}, {row.id} must have settings that decide the results of "
                f"{recipe.kind}, no folders, seeds or other flags. Received: {unknown}"
            )
        missing = [name for name in ("task", "algo", "paper") if name not in row.settings]
        if missing and recipe.kind != "exact":
            raise ValueError(
                f"{recipe.name}, {row.id} must have {missing}. Received: {row.settings}"
            )
        try:
            flags.check({**row.settings, **reduced}, flags.DECIDING)
        except ValueError as error:
            message = f"{recipe.name}, {row.id} must have values of the right type: {error}"
            raise ValueError(message) from None


def _known_settings(kind: str) -> set[str]:
    if kind == "exact":
        return set()
    if kind == "analysis":
        return {"algo", "paper", "clients_per_round", *ANALYSIS} - {"preset", "data", "data_dir"}
    return {name for name in flags.DECIDING if name != "preset" and not is_place(name)}


def check_given(recipe: Recipe, given: Collection[str]) -> None:
    """Refuse flags that would have no effect, or are the recipe's own."""
    refused = [f"--{name}" for name in OWN if name in given]
    if refused:
        raise ValueError(f"{', '.join(OWN)} must not be given with recipe. Received: {refused}")
    if recipe.kind == "runs":
        return
    kind = "an analysis" if recipe.kind == "analysis" else "which is computed exactly"
    decides = [n for n in ANALYSIS if n not in OWN] if recipe.kind == "analysis" else []
    taken = [*decides, *(name for name in _PLACES if name not in decides)]
    refused = [f"--{n}" for n in given if n not in taken and not n.endswith("_dir")]
    if refused:
        raise ValueError(
            f"{recipe.name}, {kind}, must be given no flags but {', '.join(taken)}. "
            f"Received: {refused}"
        )


def check_hyperparameters(given: Collection[str], algorithms: Collection[str]) -> None:
    """Refuse hyperparameters of algorithms that no row has."""
    useless = [f"--{n}" for n in given if flags.OWNERS.get(n, n) not in (n, *algorithms)]
    if useless:
        raise ValueError(
            "hyperparameters must be of an algorithm of the rows, "
            f"{', '.join(sorted(algorithms))}. Received: {useless}"
        )
