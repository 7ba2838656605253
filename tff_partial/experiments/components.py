"""What an experiment consists of: data, model, process, costs."""

from __future__ import annotations

from typing import Callable, Optional

from tff_partial import costs
from tff_partial import tiers as tier_types
from tff_partial.core import tracing
from tff_partial.core.aggregators import MEAN
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Array
from tff_partial.costs import overview, rounds
from tff_partial.experiments import bundled, config, evaluations
from tff_partial.experiments.bundled import tasks
from tff_partial.experiments.config import Experiment
from tff_partial.experiments.participation import ClientArrays, Process
from tff_partial.processes.averaging import AveragingProcess

PAPER_NEEDS_REAL_DATA = (
    "preset='paper' must have the real data: --data=tfds downloads them, --data_dir names a "
    "folder where they are prepared; --preset=demo runs on embedded data. "
)


def load_data(
    experiment: Experiment, data: str, data_dir: Optional[str], log: Callable[[str], None] = print
) -> tasks.FederatedData:
    """Return the task's data, divided among the clients; they suit the model.

    Raises:
      ValueError: If they cannot be loaded, or are embedded and the settings a paper's.
    """
    is_paper, settings = experiment.preset == "paper", experiment.settings
    if is_paper and data == "embedded":
        raise ValueError(PAPER_NEEDS_REAL_DATA + "Received: data='embedded'")
    loaded = tasks.load(
        experiment.task,
        data=data,
        data_dir=data_dir,
        partition=settings.partition,
        clients=settings.clients,
        seed=experiment.seed,
        train_examples=settings.train_examples,
        # For `paper` embedded data are the error below, not a choice to report.
        log=(lambda line: None) if is_paper else log,
    )
    if is_paper and not loaded.real:
        raise ValueError(PAPER_NEEDS_REAL_DATA + f"Received: {loaded.description}")
    bundled.check_model_fits(settings.model, loaded)
    return loaded


def create_model(experiment: Experiment, data: tasks.FederatedData) -> ModelSpec:
    """Return the model for the data that were loaded."""
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


def create_process(
    experiment: Experiment,
    model: ModelSpec,
    data: ClientArrays,
    several_workers: bool = False,
    store: Optional[tracing.Store] = None,
) -> Process:
    """Return the algorithm's process, in a form that several remote workers can run if need be.

    What is traced for it is kept in the store.
    """
    with tracing.kept_in(store):
        given = model, config.create_params(experiment, data)
        aggregator = config.aggregator_of(experiment)
        # An algorithm of a user's may know the mean only.
        with_aggregator = {} if aggregator is MEAN else {"aggregator": aggregator}
        process = experiment.algorithm.build(*given, **with_aggregator)
    if several_workers and isinstance(process, AveragingProcess):
        return process.in_steps()
    return process


def create_evaluation(
    experiment: Experiment,
    model: ModelSpec,
    data: tasks.FederatedData,
    calibration: Optional[Array] = None,
) -> evaluations.Evaluate:
    """Return what tests the server's model, and what else the settings ask for.

    `calibration` are the examples for the statistics of static batch normalisation.
    """
    algorithm, settings, deployed = experiment.algorithm, experiment.settings, None
    if "tiers" in settings.tested:
        params, tiers = config.create_params(experiment, data), config.tiers_of(experiment)
        examples = config.mixed_examples(data, experiment.seed)
        deployed = evaluations.deployed_by(
            algorithm, model, params, tiers, examples, experiment.seed
        )
    labels = (data.client(client)[1] for client in range(data.num_clients))
    return evaluations.build(
        model,
        data.test_x,
        data.test_y,
        deployed,
        labels if "clients" in settings.tested else None,
        calibration=calibration,
        calibration_batch=settings.batch_size,
    )


def create_accounts(
    experiment: Experiment, model: ModelSpec, data: tasks.FederatedData
) -> rounds.Accounts:
    """Return what rounds cost.

    Raises:
      ValueError: If the model has no such tier, or no client would ever meet the deadline.
    """
    tiers, params = config.tiers_of(experiment), config.create_params(experiment)
    accounts = rounds.Accounts(
        [tier.label for tier in tiers],
        config.tier_of(experiment),
        config.tier_shares(experiment),
        [experiment.algorithm.cost(model, params, tier) for tier in tiers],
        costs.whole(model, params.local.batch_size),
        params.local,
        data.client_size,
        data.num_clients,
        experiment.devices,
        experiment.seed,
        data.mean_size,
    )
    participants = config.participants(experiment)
    accounts.check_deadline(
        None if participants is None else participants.tolist(),
        bool(experiment.settings.capacities),
    )
    return accounts


def tier_lines(experiment: Experiment, model: ModelSpec, accounts: rounds.Accounts) -> list[str]:
    """Return what to tell the user of the tiers: what they take, and which are not what they say.

    There is nothing to tell of an algorithm without tiers.
    """
    algorithm = experiment.algorithm
    if "tiers" not in algorithm.needs:
        return []
    params = config.create_params(experiment)
    strong = algorithm.cost(model, params, tier_types.create("strong"))
    remarks = [
        overview.remark(
            model, tier, cost, strong, params.local.batch_size, algorithm.tiers_are_rates
        )
        for tier, cost in zip(config.tiers_of(experiment), accounts.tier_costs)
    ]
    rows = [{"tier": name, **each} for name, each in accounts.figures().items()]
    return [*overview.lines(rows), *(f"note: {text}" for text in remarks if text)]
