"""How similar clients' local models become: figures 1 and 3 of EmbracingFL.

Clients train with each of a figure's schemes (schemes.py), and every `measure_every` rounds their
models are compared (comparison.py). The folder gets similarity.csv, similarity.png, config.json and
a folder of each scheme's run.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Optional

from tff_partial import runtime
from tff_partial.core import evaluation
from tff_partial.core.fields import Value
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Array
from tff_partial.experiments import callbacks, components, config, loop
from tff_partial.experiments.bundled import tasks
from tff_partial.experiments.execution import Execution
from tff_partial.experiments.run import new_folder, say
from tff_partial.results import folder as results
from tff_partial.similarity import comparison, schemes, svcca, tables
from tff_partial.system import folder_lock

# Settings of a run that a study takes, by their names as flags.
SETTINGS = (
    *("task", "preset", "model", "width", "partition", "clients", "rounds", "local_steps"),
    *("batch_size", "learning_rate", "momentum", "weight_decay", "train_examples", "seed"),
)
# Of the small runs, where the user says nothing else; and what both figures have in the paper.
DEMO: Mapping[str, Value] = {"clients": 8, "rounds": 10}
PAPER: Mapping[str, Value] = {"rounds": 100, "paper": "embracingfl"}


@dataclasses.dataclass(frozen=True)
class Measuring:
    """How similarity is measured.

    Attributes:
      measure_every: Rounds between measurements.
      vectors: Singular vectors of SVCCA.
      batches: Held-out batches that are averaged.
      examples: Examples in such a batch.
    """

    measure_every: int = 2
    vectors: int = svcca.VECTORS
    batches: int = 4
    examples: int = 100

    def __post_init__(self) -> None:
        for name in ("measure_every", "vectors", "batches"):
            value = dataclasses.asdict(self)[name]
            if value < 1:
                raise ValueError(f"{name} must be positive. Received: {name}={value}")
        if self.examples <= 2 * self.vectors:
            raise ValueError(
                f"examples must be more than {2 * self.vectors}, twice the vectors. "
                f"Received: examples={self.examples}"
            )


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A study whose input has been checked, with the lock on its folder."""

    figure: int
    experiment: config.Experiment
    data: tasks.FederatedData
    model: ModelSpec
    measuring: Measuring
    batches: Sequence[Array]
    shares: Mapping[str, schemes.Shares]
    folder: str
    lock: folder_lock.FolderLock


def prepare(
    figure: int = 1,
    measuring: Optional[Measuring] = None,
    data: str = "auto",
    data_dir: Optional[str] = None,
    output_dir: Optional[str] = None,
    **settings: Value,
) -> Prepared:
    """Check the input, load the data and make the results folder, in this order.

    `figure` is a key of `schemes.FIGURES`, `measuring` is `Measuring()` by default, `settings` are
    any of `SETTINGS`; the other arguments are as of `experiments.run.run`.
    """
    if figure not in schemes.FIGURES:
        raise ValueError(f"figure must be one of {[*schemes.FIGURES]}. Received: figure={figure}")
    measuring = measuring or Measuring()
    experiment = create_experiment(measuring.measure_every, **settings)
    runtime.configure("in_process")
    loaded = components.load_data(experiment, data, data_dir, log=say)
    comparison.check_clients([loaded.client_size(i) for i in range(loaded.num_clients)])
    batches = comparison.draw_batches(
        loaded.test_x, measuring.batches, measuring.examples, experiment.seed
    )
    model = components.create_model(experiment, loaded)
    shares = {name: schemes.shares(model, name) for name in schemes.FIGURES[figure]}
    folder = output_dir or new_folder(f"similarity-figure{figure}-{experiment.task.name}")
    identity = {"figure": figure, **experiment.identity(loaded), **dataclasses.asdict(measuring)}
    del identity["measure_every"]  # the settings' `eval_every`
    lock = results.prepare_folder(folder, identity, {"data_dir": data_dir})
    return Prepared(figure, experiment, loaded, model, measuring, batches, shares, folder, lock)


def create_experiment(measure_every: int, **settings: Value) -> config.Experiment:
    """Return periodic averaging with all clients active; what is averaged is the scheme's."""
    given = dict(PAPER if settings.get("preset") == "paper" else DEMO)
    given |= {name: value for name, value in settings.items() if value is not None}
    given |= {"algo": "periodic_averaging", "clients_per_round": given.get("clients")}
    experiment = config.create(is_real=False, **given)
    clients = experiment.settings.clients
    if clients < 2:
        raise ValueError(f"clients must be at least 2. Received: clients={clients}")
    chosen = dataclasses.replace(
        experiment.settings, clients_per_round=clients, eval_every=measure_every
    )
    return dataclasses.replace(experiment, settings=chosen)


def run(prepared: Prepared) -> tables.Rows:
    """Train with every scheme and write the results; return the rows of similarity.csv.

    Raises:
      Interrupted: On SIGINT or SIGTERM; the study resumes when restarted with the same folder.
    """
    experiment, folder = prepared.experiment, prepared.folder
    task, data = experiment.task.name, prepared.data.description
    say(f"figure {prepared.figure}: {task}; data {data}; results in {folder}")
    with Execution().installed():
        folders = {scheme: _train(prepared, scheme) for scheme in prepared.shares}
    settings = experiment.settings
    blocks = [block.name for block in prepared.model.instantiate().blocks]
    rows = tables.read(folders, blocks, settings.local_steps or 0)
    tables.write_csv(f"{folder}/similarity.csv", rows)
    title = (
        f"figure {prepared.figure}: {task}, {settings.model}, {settings.clients} clients\n{data}"
    )
    tables.plot(f"{folder}/similarity.png", title, tables.panels(prepared.figure, rows))
    fewest = min(row["clients"] for row in rows)
    if fewest < settings.clients:
        say(f"models that diverged were left out: at times only {fewest} were compared")
    return rows


def _train(prepared: Prepared, scheme: str) -> str:
    """Train with a scheme, measuring on the way; return the folder of its metrics."""
    experiment, data, model = prepared.experiment, prepared.data, prepared.model
    settings, folder = experiment.settings, os.path.join(prepared.folder, scheme)
    synchronised = prepared.shares[scheme].statistics
    watching = [
        comparison.Comparison(model, prepared.batches, synchronised, prepared.measuring.vectors),
        callbacks.TensorBoard(folder),
        callbacks.ProgressBar(settings.rounds, scheme),
    ]
    # Losses on all examples of all clients would take longer than training, and nobody reads them.
    params = dataclasses.replace(config.create_params(experiment), measure_losses=False)
    loop.train(
        schemes.build(model, params, scheme),
        data,
        evaluation.build(model, data.test_x, data.test_y),
        loop.LoopOptions(
            settings.rounds,
            settings.clients,
            experiment.seed,
            eval_every=settings.eval_every,
            stop_when_diverged=False,  # models that diverged are left out and counted
        ),
        folder,
        watching,
    )
    return folder
