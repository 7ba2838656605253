"""From names and numbers to a run: settings, model, process."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional

import numpy as np

from tff_partial import costs, tiers
from tff_partial.algorithms import registry
from tff_partial.algorithms.declaration import Algorithm, Defaults
from tff_partial.core import local_training, schedules
from tff_partial.core import model as model_spec
from tff_partial.costs import rounds
from tff_partial.experiments import bundled
from tff_partial.experiments.bundled import models, tasks
from tff_partial.processes import averaging
from tff_partial.system import scratch_folders

PRESETS = ("demo", "paper")
DATA = ("auto", "embedded", "tfds")
# Of the clients, where neither the task nor the user says: case 8 of EmbracingFL's tables.
TIERS = "strong:1,moderate:1,weak:2"


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A task and an algorithm with every setting that decides the result."""

    task: Any
    algo: str
    preset: str
    settings: Any
    normalization: Optional[str]
    augment: bool
    seed: int
    params: Mapping[str, Any]

    def identity(self, data: Any) -> dict[str, Any]:
        """The settings as they are written to config.json and compared on resumption."""
        return {
            "task": self.task.name,
            "algo": self.algo,
            "preset": self.preset,
            "data": data.description,
            **dataclasses.asdict(self.settings),
            "normalization": self.normalization,
            "augment": self.augment,
            "seed": self.seed,
            # Folders do not change a result: a run may go on with others.
            **{
                f"{self.algo}_{name}": value
                for name, value in self.params.items()
                if not name.endswith("_dir")
            },
        }


def create(
    task: str,
    algo: str,
    preset: str = "demo",
    paper: Optional[str] = None,
    normalization: Optional[str] = None,
    augment: bool = False,
    seed: int = 0,
    overrides: Optional[Mapping[str, Any]] = None,
    params: Optional[Mapping[str, Any]] = None,
) -> Experiment:
    """Resolves a preset and what the user changed of it.

    Args:
      task: A key of `tasks.TASKS`.
      algo: A key of the registry.
      preset: `demo` or `paper`.
      paper: Whose settings `preset='paper'` takes; the algorithm's own paper where it used this
        task, else the task's default.
      normalization: Of the model, where it has one.
      augment: Whether to use the task's augmentation.
      seed: Of everything random.
      overrides: Fields of `tasks.Settings` that differ from the preset; a target of 0 is none.
      params: Hyperparameters of the algorithm that differ from its defaults.

    Raises:
      ValueError: In one line, what was expected and what was received.
    """
    chosen_task = _choose("task", task, tasks.TASKS)
    algorithm = _choose("algo", algo, registry.ALGORITHMS)
    _choose("preset", preset, dict.fromkeys(PRESETS))
    if seed < 0:
        raise ValueError(f"seed must not be negative. Received: seed={seed}")
    base = chosen_task.demo
    if preset == "paper":
        base = chosen_task.papers[_paper(chosen_task, algorithm, paper)]
    elif paper is not None:
        raise ValueError(f"paper must be given with preset='paper' only. Received: paper={paper!r}")
    changes = without_zero_target(overrides or {})
    if "local_steps" in changes and "local_epochs" not in changes:
        changes["local_epochs"] = None
    if "local_epochs" in changes and "local_steps" not in changes:
        changes["local_steps"] = None
    changes = {**_own_defaults(algorithm.defaults, base, changes), **changes}
    changes |= _tier_changes(algorithm, base, changes)
    settings = dataclasses.replace(base, **changes)
    architecture = _choose("model", settings.model, models.ARCHITECTURES)
    if normalization is None and architecture.normalized:
        normalization = algorithm.defaults.normalization
    _check_normalization(architecture, normalization)
    schedules.create(settings.learning_rate)
    experiment = Experiment(
        chosen_task, algo, preset, settings, normalization, augment, seed, dict(params or {})
    )
    create_params(experiment)
    if augment and chosen_task.augment is None:
        raise ValueError(f"augment must be used with a task that has one. Received: task={task!r}")
    return experiment


def without_zero_target(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes with None for a target of 0: a flag that is not given leaves the preset's."""
    none = {"target_accuracy": None} if changes.get("target_accuracy") == 0 else {}
    return {**changes, **none}


def _own_defaults(
    defaults: Defaults, base: tasks.Settings, changes: Mapping[str, object]
) -> dict[str, object]:
    """Return the algorithm's own settings, where the preset and the user leave them open."""
    own: dict[str, object] = {}
    if base.clip_norm is None:
        own["clip_norm"] = defaults.clip_norm
    if defaults.local_steps and base.local_epochs and "local_epochs" not in changes:
        own |= {"local_steps": defaults.local_steps, "local_epochs": None}
    return own


def _tier_changes(
    algorithm: Algorithm[Any], base: tasks.Settings, changes: Mapping[str, Any]
) -> dict[str, str]:
    """Return the tiers or the capacities, where the user or the preset leaves them open."""
    has_tiers = "tiers" in algorithm.needs
    drawn = changes.get("capacities", "" if changes.get("tiers") else base.capacities)
    if not has_tiers:
        _check_no_tiers(algorithm.name, changes.get("tiers", ""))
    if not algorithm.tiers_are_rates:
        if changes.get("capacities"):
            raise ValueError(
                "capacities must be used with an algorithm that has sub-models. "
                f"Received: algo={algorithm.name!r}, capacities={drawn!r}"
            )
        drawn = ""
    if not has_tiers or drawn:
        return {"tiers": changes.get("tiers", ""), "capacities": drawn}
    clients = changes.get("clients", base.clients)
    scaled = tiers.scale(tiers.parse(base.tiers or TIERS), clients)
    return {"tiers": changes.get("tiers", scaled), "capacities": ""}


def create_params(experiment: Experiment, data: Any = None) -> Any:
    """Return the algorithm's hyperparameters, its local training and what it needs included."""
    settings = experiment.settings
    local = local_training.LocalTraining(
        steps=settings.local_steps,
        epochs=settings.local_epochs,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
        weight_decay_on=settings.weight_decay_on,
        clip_norm=settings.clip_norm,
    )
    algorithm = registry.ALGORITHMS[experiment.algo]
    known: dict[str, object] = {
        "tiers": tiers_of(experiment),
        "population": settings.clients,
        "active": settings.clients_per_round,
        "server_examples": functools.partial(mixed_examples, data, experiment.seed),
    }
    needed = {name: known[name] for name in algorithm.needs}
    return algorithm.params(local=local, **needed, **experiment.params)


def tiers_of(experiment: Experiment) -> tuple[tiers.Tier, ...]:
    """The tiers of the population; all clients are strong where an algorithm has none."""
    settings = experiment.settings
    if settings.capacities:
        return tuple(tiers.parse_drawn(settings.capacities))
    are_rates = registry.ALGORITHMS[experiment.algo].tiers_are_rates
    return tiers.parse(settings.tiers or f"strong:{settings.clients}", are_rates)


def tier_of(experiment: Experiment) -> Callable[[int, int], int]:
    """(Client, round) -> index of the client's tier."""
    text, seed = experiment.settings.capacities, experiment.seed
    if text:
        shares = list(tiers.parse_drawn(text).values())
        return lambda client, round_num: tiers.draw(shares, seed, client, round_num)
    assigned = tiers.assign(tiers_of(experiment), seed)
    return lambda client, round_num: int(assigned[client])


def participants(experiment: Experiment) -> Optional[np.ndarray]:
    """Ids of the clients that can be drawn; None for all."""
    only = experiment.settings.only_tiers
    if not only:
        return None
    names = [tier.name for tier in tiers_of(experiment)]
    wanted = [names.index(name) for name in only.split(",")]
    return np.flatnonzero(np.isin(tiers.assign(tiers_of(experiment), experiment.seed), wanted))


def check_folders(experiment: Experiment) -> None:
    """Makes the folders that hyperparameters `..._dir` name.

    Raises:
      ValueError: If one cannot be written.
    """
    for name, path in experiment.params.items():
        if not name.endswith("_dir") or not path:
            continue
        try:
            os.makedirs(path, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
        except OSError as error:
            raise ValueError(
                f"{name} must be a folder that can be written. Received: {error}"
            ) from error


@contextlib.contextmanager
def own_folders(experiment: Experiment, output_dir: str, remote: bool) -> Iterator[Experiment]:
    """Gives the run folders of its own inside those that hyperparameters `..._dir` name.

    Args:
      experiment: The experiment, its folders shared with other runs.
      output_dir: The folder of the run's results, which is its own.
      remote: Whether the folders are on other hosts.
    """
    with contextlib.ExitStack() as stack:
        params = dict(experiment.params)
        for name, parent in experiment.params.items():
            if not name.endswith("_dir") or not parent:
                continue
            params[name] = (
                scratch_folders.name_of(parent, output_dir)
                if remote
                else stack.enter_context(scratch_folders.own(parent, output_dir))
            )
        yield dataclasses.replace(experiment, params=params)


def create_accounts(
    experiment: Experiment, model: model_spec.ModelSpec, data: Any, devices: rounds.Devices
) -> rounds.Accounts:
    """What rounds cost.

    Raises:
      ValueError: If the model has no such tier.
    """
    found, params = tiers_of(experiment), create_params(experiment)
    algorithm = registry.ALGORITHMS[experiment.algo]
    return rounds.Accounts(
        [tier.name for tier in found],
        tier_of(experiment),
        _tier_shares(experiment),
        [algorithm.cost(model, params, tier) for tier in found],
        costs.whole(model, params.local.batch_size),
        params.local,
        data.client_size,
        data.num_clients,
        devices,
        experiment.seed,
    )


def _tier_shares(experiment: Experiment) -> list[float]:
    """The share of each tier in those who take part."""
    settings = experiment.settings
    if settings.capacities:
        return list(tiers.parse_drawn(settings.capacities).values())
    found = tiers_of(experiment)
    only = settings.only_tiers.split(",") if settings.only_tiers else [t.name for t in found]
    counts = [tier.count if tier.name in only else 0 for tier in found]
    return [count / sum(counts) for count in counts]


def create_model(experiment: Experiment, data: Any) -> model_spec.ModelSpec:
    """The model for the data that were loaded."""
    settings, task = experiment.settings, experiment.task
    return bundled.create_model(
        settings.model,
        tuple(data.input_shape),
        data.num_classes,
        settings.width,
        experiment.normalization,
        input_dtype=str(data.x_dtype),
        preprocess=task.preprocess,
        augment=task.augment if experiment.augment else None,
        seed=experiment.seed,
        loss=task.loss,
        metrics=task.metrics,
    )


def mixed_examples(data: Any, seed: int, examples: int = 2000) -> np.ndarray:
    """So many of the clients' examples, mixed, without their labels.

    For what a server needs examples for: the statistics of static batch normalisation, and
    distillation. All clients give equally many, as far as they have them: a few whole clients
    would lack classes.
    """
    rng = np.random.default_rng([seed, 0xCA11])
    clients = rng.permutation(data.num_clients)[:examples]
    found = [rng.permutation(data.client(int(client))[0])[:examples] for client in clients]
    turn = np.concatenate([np.arange(len(x)) for x in found])
    return rng.permutation(np.concatenate(found)[np.argsort(turn, kind="stable")[:examples]])


def create_process(
    experiment: Experiment, model: model_spec.ModelSpec, data: Any, several_workers: bool = False
) -> Any:
    """Return the algorithm's process, in a form that several remote workers can run if need be."""
    params = create_params(experiment, data)
    process = registry.ALGORITHMS[experiment.algo].build(model, params)
    if several_workers and isinstance(process, averaging.AveragingProcess):
        return process.in_steps()
    return process


def load_data(experiment: Experiment, data: str, data_dir: Optional[str], log: Any = print) -> Any:
    """The task's data, divided among the clients.

    Raises:
      ValueError: If they cannot be had, or the paper's settings meet embedded data.
    """
    _choose("data", data, dict.fromkeys(DATA))
    if experiment.preset == "paper" and data == "embedded":
        raise ValueError(_PAPER_NEEDS_REAL_DATA + "Received: data='embedded'")
    settings = experiment.settings
    loaded = tasks.load(
        experiment.task,
        data=data,
        data_dir=data_dir,
        partition=settings.partition,
        clients=settings.clients,
        seed=experiment.seed,
        train_examples=settings.train_examples,
        # For `paper` embedded data are the error below, not a choice to report.
        log=(lambda line: None) if experiment.preset == "paper" else log,
    )
    if experiment.preset == "paper" and not loaded.real:
        raise ValueError(_PAPER_NEEDS_REAL_DATA + f"Received: {loaded.description}")
    return loaded


_PAPER_NEEDS_REAL_DATA = (
    "preset='paper' must have the real data: --data=tfds downloads them, --data_dir names a "
    "folder where they are prepared; --preset=demo runs on embedded data. "
)


def _choose(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise ValueError(f"{kind} must be one of {sorted(known)}. Received: {kind}={name!r}")
    return known[name]


def _paper(task: Any, algorithm: Algorithm[Any], paper: Optional[str]) -> str:
    if paper is not None:
        _choose("paper", paper, task.papers)
        return paper
    return algorithm.paper if algorithm.paper in task.papers else task.default_paper


def _check_no_tiers(algo: str, text: str) -> None:
    if not text:
        return
    if any(tier.name != "strong" for tier in tiers.parse(text)):
        raise ValueError(
            f"tiers must be all strong for {algo}, which trains the whole model on every client. "
            f"Received: tiers={text!r}"
        )


def _check_normalization(architecture: models.Architecture, normalization: Optional[str]) -> None:
    if normalization is not None and not architecture.normalized:
        normalized = [name for name, each in models.ARCHITECTURES.items() if each.normalized]
        raise ValueError(
            f"normalization must be given for one of {sorted(normalized)}. "
            f"Received: model={architecture.name!r}, normalization={normalization!r}"
        )
