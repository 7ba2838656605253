"""From names and numbers to an experiment: the settings of a run, complete and checked."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np

from tff_partial import tiers
from tff_partial.algorithms import registry
from tff_partial.algorithms.declaration import Algorithm, Defaults
from tff_partial.core import checks, local_optimizers, local_training, schedules
from tff_partial.core.aggregators import MEAN, Aggregator, Robust, Secure
from tff_partial.core.fields import Value
from tff_partial.core.private_aggregation import Private
from tff_partial.core.server_optimizers import ServerOptimizer
from tff_partial.core.types import Array
from tff_partial.costs.rounds import Devices, parse_speeds
from tff_partial.experiments import bundled, flags, own, privacy
from tff_partial.experiments.bundled import models, tasks
from tff_partial.experiments.participation import ClientArrays, TierFn
from tff_partial.results.schema import OPTIMIZERS

PRESETS = ("demo", "paper")
# Of the clients, where neither the task nor the user says: case 8 of EmbracingFL's tables.
TIERS = "strong:1,moderate:1,weak:2"


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A task and an algorithm with every setting that decides the result."""

    task: tasks.Task
    algo: str
    preset: str
    settings: tasks.Settings
    normalization: Optional[str]
    augment: bool
    seed: int
    devices: Devices
    params: Mapping[str, Value]
    task_name: str

    @property
    def algorithm(self) -> Algorithm[Any]:
        """The algorithm's declaration."""
        return registry.ALGORITHMS[self.algo]

    @property
    def has_own_code(self) -> bool:
        """Whether code of the user's is in the graphs."""
        settings = self.settings
        return any("#" in name for name in (self.task_name, settings.model, settings.learning_rate))

    @property
    def paper(self) -> Optional[str]:
        """Whose preset it is; None for the demo."""
        names = {preset.source: name for name, preset in self.task.papers.items()}
        return names.get(self.settings.source) if self.preset == "paper" else None

    def identity(self, data: tasks.FederatedData) -> dict[str, Value]:
        """Return the settings as they are written to config.json and compared on resumption."""
        # Folders do not change a result: a run may be resumed with others.
        params = {name: value for name, value in self.params.items() if not name.endswith("_dir")}
        return {
            "task": self.task_name,
            "algo": self.algo,
            "preset": self.preset,
            "data": data.description,
            **dataclasses.asdict(self.settings),
            "normalization": self.normalization,
            "augment": self.augment,
            "seed": self.seed,
            **{f"{self.algo}_{name}": value for name, value in params.items()},
        }


def create(
    task: object = "imdb", algo: Value = "fedavg", is_real: bool = False, **given: object
) -> Experiment:
    """Return the experiment that settings describe.

    Args:
      task: A key of `tasks.TASKS`, `my_module:TASK` or a `tasks.Task`.
      algo: A key of the registry.
      is_real: Whether the data will be real: some tasks have another demo for them.
      **given: What differs from the preset and from the algorithm's defaults, by names of flags.
        The paper is the algorithm's own where it used the task, else the task's default; a target
        accuracy of 0 is none. A model, a schedule or a sampler may be an object, or `my_module:fn`.

    Raises:
      ValueError: In one line, what was expected and what was received.
    """
    values = flags.check({**own.named(given), "algo": algo}, flags.DECIDING)
    chosen_task, task_name = own.task_of("imdb" if task is None else task)
    algorithm = _choose("algo", values["algo"], registry.ALGORITHMS)
    demo = chosen_task.small(is_real)
    base = _preset(chosen_task, algorithm, values["preset"], values["paper"], demo)
    settings = _changed(base, algorithm, {n: v for n, v in values.items() if n in flags.SETTINGS})
    experiment = Experiment(
        chosen_task,
        algorithm.name,
        values["preset"],
        settings,
        _normalization(settings.model, algorithm, values["normalization"]),
        values["augment"],
        values["seed"],
        Devices(
            parse_speeds(values["device_speeds"]),
            values["round_deadline"],
            values["full_model_seconds"],
        ),
        _hyperparameters(algorithm, values, settings.aggregation == "dp"),
        task_name,
    )
    params = create_params(experiment)  # checks them
    aggregator = aggregator_of(experiment)
    aggregator.check(algorithm.refused_with(params))
    aggregator.check_weighting(getattr(params, "weighting", "uniform"))
    if experiment.augment and chosen_task.augment is None:
        name = chosen_task.name
        raise ValueError(f"augment must be used with a task that has one. Received: task={name!r}")
    if settings.aggregation == "dp" and experiment.normalization == "static":
        raise ValueError(
            "normalization must not be static with aggregation='dp': its statistics are those of "
            "clients' examples. Received: normalization='static'; group and none keep none"
        )
    return experiment


def _preset(
    task: tasks.Task,
    algorithm: Algorithm[Any],
    preset: str,
    paper: Optional[str],
    demo: tasks.Settings,
) -> tasks.Settings:
    """Return the settings that nobody has changed yet."""
    _choose("preset", preset, dict.fromkeys(PRESETS))
    if preset == "paper":
        own = algorithm.paper if algorithm.paper in task.papers else task.default_paper
        return _choose("paper", own if paper is None else paper, task.papers)
    if paper is not None:
        raise ValueError(f"paper must be given with preset='paper' only. Received: paper={paper!r}")
    return demo


def _changed(
    base: tasks.Settings, algorithm: Algorithm[Any], given: Mapping[str, Any]
) -> tasks.Settings:
    """Return a preset with what the user gives, and what the algorithm prefers."""
    changes = without_zero_target({name: v for name, v in given.items() if v is not None})
    if "local_steps" in changes and "local_epochs" not in changes:
        changes["local_epochs"] = None
    if "local_epochs" in changes and "local_steps" not in changes:
        changes["local_steps"] = None
    changes = {**_own_defaults(algorithm.defaults, base, changes), **changes}
    optimizer = changes.get("local_optimizer", "sgd")
    if optimizer != base.local_optimizer and optimizer in local_optimizers.DEFAULT_RATES:
        rate = f"{local_optimizers.DEFAULT_RATES[optimizer]:g}"
        changes = {"learning_rate": rate, "momentum": 0.0, **changes}
    changes |= _tier_changes(algorithm, base, changes)
    settings = dataclasses.replace(base, **changes)
    _check_optimizer_flags(settings, given)
    schedules.create(settings.learning_rate).check(settings.rounds)
    _check_aggregation(algorithm, settings)
    return privacy.resolve(settings, given)


def _check_aggregation(algorithm: Algorithm[Any], settings: tasks.Settings) -> None:
    """Raise a ValueError if the algorithm cannot be combined with how updates are."""
    chosen, refused = settings.aggregation, algorithm.refused
    if chosen != "mean" and "aggregator" not in inspect.signature(algorithm.build).parameters:
        refused = {chosen: "its build takes no aggregator"}
    if chosen in refused:
        raise ValueError(
            f"aggregation must not be {chosen} with {algorithm.name}: {refused[chosen]}. "
            f"Received: aggregation={chosen!r}"
        )
    if settings.sampling == "poisson" and (settings.sampler or "active" in algorithm.needs):
        raise ValueError(
            "sampling must be fixed with a sampler, and where clients stay active. "
            f"Received: sampling='poisson', sampler={settings.sampler!r}"
        )


# A flag's beginning -> the setting that says who heeds it, and the values that do.
_HEEDED = {
    "local_beta_": ("local_optimizer", ("adam", "adamw")),
    "local_epsilon": ("local_optimizer", ("adam", "adamw")),
    "server_beta_1": ("server_optimizer", ("fedavgm", "fedadam", "fedyogi")),
    "server_beta_2": ("server_optimizer", ("fedadam", "fedyogi")),
    "server_tau": ("server_optimizer", ("fedadam", "fedyogi")),
    "robust_clip": ("aggregation", ("robust",)),
    "secure_bound": ("aggregation", ("secure",)),
    **dict.fromkeys(privacy.FLAGS, ("aggregation", ("dp",))),
}


def _check_optimizer_flags(settings: tasks.Settings, given: Mapping[str, Any]) -> None:
    """Raise a ValueError if a flag that the chosen one does not heed is given another value."""
    for name, value in given.items():
        for start, (setting, heeding) in _HEEDED.items():
            chosen, is_other = getattr(settings, setting), value not in (None, OPTIMIZERS.get(name))
            if is_other and name.startswith(start) and chosen not in heeding:
                raise ValueError(
                    f"{name} must be given with {setting} {' or '.join(heeding)}. "
                    f"Received: {name}={value}, {setting}={chosen!r}"
                )


def _normalization(model: str, algorithm: Algorithm[Any], given: Optional[str]) -> Optional[str]:
    """Return the kind of normalisation; None for that of the architecture."""
    architecture = bundled.architecture_of(model)
    if given is None:
        return algorithm.defaults.normalization if architecture.normalized else None
    if not architecture.normalized:
        normalized = [name for name, each in models.ARCHITECTURES.items() if each.normalized]
        raise ValueError(
            f"normalization must be given for one of {sorted(normalized)}. "
            f"Received: model={model!r}, normalization={given!r}"
        )
    checks.one_of("normalization", given, models.NORMALIZATIONS)
    return given


def _hyperparameters(
    algorithm: Algorithm[Any], values: Mapping[str, Value], is_private: bool
) -> dict[str, Value]:
    """Return the algorithm's hyperparameters that are given, or a demo's, by their short names.

    Private aggregation counts every client alike, whatever the algorithm does by default.
    """
    algo = algorithm.name
    given = [name for name in flags.OWNERS if values[name] is not None]
    for name in given:
        if flags.OWNERS[name] != algo:
            raise ValueError(
                f"{name} must be used with algo={flags.OWNERS[name]!r}. Received: algo={algo!r}"
            )
    demo = algorithm.defaults.demo if values["preset"] == "demo" else {}
    has_weighting = "weighting" in (field.name for field in algorithm.hyperparameters)
    uniform: dict[str, Value] = {"weighting": "uniform"} if is_private and has_weighting else {}
    return {**demo, **uniform, **{name[len(algo) + 1 :]: values[name] for name in given}}


def without_zero_target(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes with None for a target of 0, as None itself means the preset's."""
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
    has_tiers, given = "tiers" in algorithm.needs, changes.get("tiers", "")
    drawn = changes.get("capacities", "" if given else base.capacities)
    if given and not has_tiers and any(tier.name != "strong" for tier in tiers.parse(given)):
        raise ValueError(
            f"tiers must be all strong for {algorithm.name}, which trains the whole model on every "
            f"client. Received: tiers={given!r}"
        )
    if not algorithm.tiers_are_rates:
        if changes.get("capacities"):
            raise ValueError(
                "capacities must be used with an algorithm that has sub-models. "
                f"Received: algo={algorithm.name!r}, capacities={drawn!r}"
            )
        drawn = ""
    if not has_tiers or drawn:
        return {"tiers": given, "capacities": drawn}
    clients = changes.get("clients", base.clients)
    scaled = tiers.scale(tiers.parse(base.tiers or TIERS, clients=base.clients), clients)
    return {"tiers": changes.get("tiers", scaled), "capacities": ""}


def create_params(experiment: Experiment, data: Optional[ClientArrays] = None) -> Any:
    """Return the algorithm's hyperparameters, its local training and what it needs included."""
    settings = experiment.settings
    local = local_training.LocalTraining(
        steps=settings.local_steps,
        epochs=settings.local_epochs,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        optimizer=settings.local_optimizer,
        momentum=settings.momentum,
        beta_1=settings.local_beta_1,
        beta_2=settings.local_beta_2,
        epsilon=settings.local_epsilon,
        weight_decay=settings.weight_decay,
        weight_decay_on=settings.weight_decay_on,
        clip_norm=settings.clip_norm,
        precision=settings.precision,
        record_precision=settings.record_precision,
    )
    known: dict[str, object] = {
        "tiers": tiers_of(experiment),
        "population": settings.clients,
        "active": settings.clients_per_round,
        "server_examples": functools.partial(mixed_examples, data, experiment.seed),
    }
    needed = {name: known[name] for name in experiment.algorithm.needs}
    needed |= _server(experiment)
    return experiment.algorithm.params(local=local, **needed, **experiment.params)


def _server(experiment: Experiment) -> dict[str, ServerOptimizer]:
    """Return what the server makes of the mean, as the algorithm's hyperparameter."""
    settings = experiment.settings
    server = ServerOptimizer(
        settings.server_optimizer,
        settings.server_learning_rate,
        settings.server_beta_1,
        settings.server_beta_2,
        settings.server_tau,
    )
    if "server" in (field.name for field in dataclasses.fields(experiment.algorithm.params)):
        return {"server": server}
    server.check_sum(f"as {experiment.algo} has no other")
    return {}


def mixed_examples(data: ClientArrays, seed: int, examples: int = 2000) -> Array:
    """Return so many of the clients' examples, mixed, without their labels.

    For what a server needs examples for: the statistics of static batch normalisation, and
    distillation. All clients give equally many, as far as they have them: a few whole clients
    would lack classes.
    """
    rng = np.random.default_rng([seed, 0xCA11])
    clients = rng.permutation(data.num_clients)[:examples]
    inputs = [rng.permutation(data.client(int(client))[0])[:examples] for client in clients]
    turn = np.concatenate([np.arange(len(x)) for x in inputs])
    return rng.permutation(np.concatenate(inputs)[np.argsort(turn, kind="stable")[:examples]])


def aggregator_of(experiment: Experiment) -> Aggregator:
    """Return how updates are combined."""
    settings = experiment.settings
    if settings.aggregation == "robust":
        return Robust(settings.robust_clip)
    if settings.aggregation == "secure":
        return Secure(settings.secure_bound)
    if settings.aggregation == "dp":
        contributors = [settings.clients_per_round * share for share in tier_shares(experiment)]
        noise = settings.dp_noise_multiplier or 0.0
        return Private(noise, tuple(contributors), settings.dp_clip)
    return MEAN


def tier_shares(experiment: Experiment) -> list[float]:
    """Return the share of each tier in those who take part."""
    settings = experiment.settings
    if settings.capacities:
        return list(tiers.parse_drawn(settings.capacities).values())
    everyone = tiers_of(experiment)
    chosen = tiers.select(everyone, settings.only_tiers)
    return [tier.count * (tier in chosen) / settings.participants for tier in everyone]


def tiers_of(experiment: Experiment) -> tuple[tiers.Tier, ...]:
    """Return the tiers of the population; all clients are strong where an algorithm has none."""
    settings = experiment.settings
    if settings.capacities:
        return tuple(tiers.parse_drawn(settings.capacities))
    are_rates = experiment.algorithm.tiers_are_rates
    text = settings.tiers or f"strong:{settings.clients}"
    return tiers.parse(text, are_rates, settings.clients)


def tier_of(experiment: Experiment) -> TierFn:
    """Return a function (client, round) -> index of the client's tier."""
    text, seed = experiment.settings.capacities, experiment.seed
    if text:
        shares = list(tiers.parse_drawn(text).values())
        return lambda client, round_num: tiers.draw(shares, seed, client, round_num)
    assigned = tiers.assign(tiers_of(experiment), seed)
    return lambda client, round_num: int(assigned[client])


def participants(experiment: Experiment) -> Optional[Array]:
    """Return the ids of the clients that can be drawn; None for all."""
    only = experiment.settings.only_tiers
    if not only:
        return None
    everyone = tiers_of(experiment)
    wanted = [everyone.index(tier) for tier in tiers.select(everyone, only)]
    return np.flatnonzero(np.isin(tiers.assign(everyone, experiment.seed), wanted))


def _choose(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    if name not in known:
        received = f"Received: {kind}={name!r}{checks.did_you_mean(name, known)}"
        raise ValueError(f"{kind} must be one of {sorted(known)}. {received}")
    return known[name]
