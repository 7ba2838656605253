"""How similar clients' local models become: figures 1 and 3 of EmbracingFL.

    python -m tff_partial.similarity --figure=1 --task=cifar10
    python -m tff_partial.similarity --figure=3 --task=cifar10 --output_dir=results/figure3

Figure 1: clients train alone, from the same initial model. Figure 3: after every --local_steps the
output-side half of the model is synchronised, or half of the channels, or the input-side half
(synchronisation.py). What is measured, every --measure_every rounds after the synchronisation: the
SVCCA of the output of each block on held-out examples, its maximum over all pairs of clients.

The folder gets similarity.csv, similarity.png and config.json, and a folder of each scheme's run. A
run that was stopped goes on when it is started again with the same settings and --output_dir.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tff_partial import runtime
from tff_partial.experiments import bundled, checkpoints, config
from tff_partial.experiments.bundled import models, tasks
from tff_partial.results import folder as results
from tff_partial.similarity import comparison, schemes, svcca, tables
from tff_partial.system import faults, folder_lock, interrupts

FIGURES = {1: ("none",), 3: ("second_half", "channel", "first_half")}
# Of the small runs, where the user says nothing else; and what both figures have in the paper.
DEMO = {"clients": 8, "rounds": 10}
PAPER = {"rounds": 100}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The flags.

    Raises:
      ValueError: In one line.
    """
    parser = _Parser(
        "python -m tff_partial.similarity",
        description=__doc__,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--figure", type=int, default=1, help="1 (independent clients) or 3 (halves synchronised)")
    add("--task", default="cifar10", help=", ".join(tasks.TASKS))
    add("--preset", default="demo", help="demo (small) or paper (128 clients; the real data)")
    add("--model", help=", ".join(models.NAMES))
    add("--width", type=float, help="share of the model's channels and units, in (0, 1]")
    add("--data", default="auto", help="auto, embedded or tfds")
    add("--data_dir", help="folder of tensorflow-datasets")
    add("--partition", help="how examples go to clients, such as dirichlet:0.1")
    add("--train_examples", type=int, help="deals out so many training examples; default: all")
    add("--clients", type=int, help="all of them train in every round")
    add("--rounds", type=int, help="rounds of --local_steps")
    add("--local_steps", type=int, help="local steps in a round")
    add("--batch_size", type=int, help="examples in a local step")
    add("--learning_rate", help="a number or a schedule, as in run_experiment.py")
    add("--momentum", type=float, help="momentum of local SGD")
    add("--weight_decay", type=float, help="factor of w added to the gradient of kernels")
    add("--seed", type=int, default=0, help="of everything random")
    add("--measure_every", type=int, default=2, help="rounds between measurements")
    add("--vectors", type=int, default=svcca.VECTORS, help="singular vectors")
    add("--batches", type=int, default=4, help="held-out batches that are averaged")
    add("--examples", type=int, default=100, help="examples in such a batch")
    add("--output_dir", help="results/similarity-figure<figure>-<task>-<time> by default")
    try:
        return parser.parse_args(argv)
    except ValueError as error:
        given = " ".join(argv)
        raise ValueError(f"flags must be as in --help: {error}. Received: {given}") from None


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Everything that can be wrong with the input has been checked."""

    figure: int
    experiment: config.Experiment
    data: Any
    model: Any
    measured: Mapping[str, int]
    batches: Sequence[Any]
    shares: Mapping[str, schemes.Shares]
    folder: str
    lock: folder_lock.FolderLock


def prepare(flags: argparse.Namespace) -> Prepared:
    """Checks the flags, loads the data and makes the results folder, in this order."""
    measured = _measured(flags)
    experiment = create_experiment(flags)
    runtime.configure("in_process")
    data = config.load_data(experiment, flags.data, flags.data_dir, log=_say)
    bundled.check_model_fits(experiment.settings.model, data)
    comparison.check_clients([data.client_size(i) for i in range(data.num_clients)])
    batches = comparison.draw_batches(data.test_x, flags.batches, flags.examples, experiment.seed)
    model = config.create_model(experiment, data)
    shares = {name: schemes.shares(model, name) for name in FIGURES[flags.figure]}
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = flags.output_dir or f"results/similarity-figure{flags.figure}-{flags.task}-{stamp}"
    settings = {"figure": flags.figure, **experiment.identity(data), **measured}
    lock = results.prepare_folder(folder, settings, {"data_dir": flags.data_dir})
    return Prepared(flags.figure, experiment, data, model, measured, batches, shares, folder, lock)


def create_experiment(flags: argparse.Namespace) -> config.Experiment:
    """Periodic averaging with all clients active; what is averaged is the scheme's."""
    is_paper = flags.preset == "paper"
    settings_of = {field.name for field in dataclasses.fields(tasks.Settings)}
    overrides = {k: v for k, v in vars(flags).items() if k in settings_of and v is not None}
    overrides = {**(PAPER if is_paper else DEMO), **overrides}
    if "clients" in overrides:
        overrides["clients_per_round"] = overrides["clients"]
    experiment = config.create(
        flags.task,
        "periodic_averaging",
        flags.preset,
        "embracingfl" if is_paper else None,
        seed=flags.seed,
        overrides=overrides,
    )
    settings = dataclasses.replace(
        experiment.settings,
        clients_per_round=experiment.settings.clients,
        eval_every=flags.measure_every,
    )
    if settings.clients < 2:
        raise ValueError(f"clients must be at least 2. Received: clients={settings.clients}")
    return dataclasses.replace(experiment, settings=settings)


def _measured(flags: argparse.Namespace) -> dict[str, int]:
    """How similarity is measured."""
    if flags.figure not in FIGURES:
        raise ValueError(f"figure must be one of {[*FIGURES]}. Received: figure={flags.figure}")
    for name in ("vectors", "batches", "measure_every"):
        if getattr(flags, name) < 1:
            raise ValueError(f"{name} must be positive. Received: {name}={getattr(flags, name)}")
    if flags.examples <= 2 * flags.vectors:
        raise ValueError(
            f"examples must be more than {2 * flags.vectors}, twice the vectors. "
            f"Received: examples={flags.examples}"
        )
    return {name: getattr(flags, name) for name in ("vectors", "batches", "examples")}


def run(prepared: Prepared) -> int:
    """Trains with every scheme, writes the results and prints them; returns the exit code."""
    from tff_partial.experiments import loop

    _say(
        f"figure {prepared.figure}: {prepared.experiment.task.name}; data "
        f"{prepared.data.description}; results in {prepared.folder}"
    )
    context = runtime.set_default()
    try:
        folders = {name: _train(prepared, name) for name in prepared.shares}
    except loop.Interrupted as stopped:
        _say(f"{stopped}; start again with --output_dir={prepared.folder} to go on")
        return 128 + stopped.signal_number
    finally:
        context.close()
    _finish(prepared, folders)
    return 0


def _train(prepared: Prepared, scheme: str) -> str:
    """Trains with a scheme, measuring on the way; returns the folder of its metrics."""
    import tqdm

    from tff_partial.core import evaluation
    from tff_partial.experiments import loop

    experiment, data, model = prepared.experiment, prepared.data, prepared.model
    settings = experiment.settings
    process = schemes.build(model, config.create_params(experiment), scheme)
    compare = comparison.Comparison(
        model, prepared.batches, prepared.shares[scheme].statistics, prepared.measured["vectors"]
    )
    compare.add_to(process)
    plan = loop.Plan(
        settings.rounds,
        settings.clients,
        experiment.seed,
        eval_every=settings.eval_every,
        stop_when_diverged=False,  # models that diverged are left out and counted
    )
    folder = os.path.join(prepared.folder, scheme)
    with tqdm.tqdm(total=plan.rounds, desc=scheme, unit="round", dynamic_ncols=True) as bar:

        def on_round(done: int, row: Mapping[str, Any]) -> None:
            interrupts.raise_when_interrupted()  # the loop has begun: it saves what is done
            bar.update(done - bar.n)

        os.makedirs(folder, exist_ok=True)
        evaluate = evaluation.build(model, data.test_x, data.test_y)
        loop.train(process, data, evaluate, plan, folder, on_round)
    return folder


def _finish(prepared: Prepared, folders: Mapping[str, str]) -> None:
    settings = prepared.experiment.settings
    blocks = [block.name for block in prepared.model.instantiate().blocks]
    rows = tables.read(folders, blocks, settings.local_steps)
    tables.write_csv(f"{prepared.folder}/similarity.csv", rows)
    title = (
        f"figure {prepared.figure}: {prepared.experiment.task.name}, {settings.model}, "
        f"{settings.clients} clients\n{prepared.data.description}"
    )
    drawn = tables.panels(prepared.figure, rows)
    tables.plot(f"{prepared.folder}/similarity.png", title, drawn)
    print(tables.table(prepared.figure, rows))
    fewest = min(row["clients"] for row in rows)
    if fewest < settings.clients:
        _say(f"models that diverged were left out: at times only {fewest} were compared")


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def main(argv: Sequence[str]) -> int:
    """Runs what the flags ask for; returns the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        prepared = prepare(parse(argv))
    except ValueError as error:
        _say(f"error: {error}")
        return 2
    except OSError as error:
        _say(f"error: {error}")
        return 1
    try:
        with prepared.lock:
            return run(prepared)
    except checkpoints.CheckpointError as error:
        _say(f"error: {error}")
        return 2
    except faults.errors() as error:
        _say(f"error: {faults.line(error)}")
        return 1
    except KeyboardInterrupt:
        _say("stopped at once; what follows the last checkpoint is repeated by the next start")
        return 130
