"""The recipes there are, plans of them and runs that train nothing, for several test files."""

import types

from tff_partial.recipes import catalog, schema
from tff_partial.recipes import plan as recipe_plan

TABLES = {
    "embracing": [*(f"table{n}" for n in range(1, 11)), "figure1", "figure3", "figure4"],
    "partial_averaging": [
        *(f"table{n}" for n in range(1, 7)),
        *(f"figure{n}" for n in range(2, 14)),
    ],
    "fedumf": [
        *("table1", "table2", "table3", "table4", "tableA1", "tableA2", "figureA5"),
        *(f"figure{n}" for n in range(3, 11)),
    ],
    "feddse": [
        *(f"table{n}" for n in (1, 2, 4, 5, 6, 7)),
        *(f"figure{n}" for n in (2, 5, 6, 7, 8)),
        "appendixA3",
    ],
    "fedpmt": ["table2", "table3", "figure2"],
}
ALL = [f"{paper}/{name}" for paper, stems in TABLES.items() for name in stems]
# Those with runs of their own; figures that draw a table's runs have none.
OWN = [name for name in ALL if not catalog.load(name).of]
TRAINED = [name for name in OWN if catalog.load(name).kind != "exact"]
# Stands for a run: rounds that take some time, then the files of a finished run.
FAKE = """
import json, os, pathlib, sys, time
folder, rounds, seconds, message = pathlib.Path(sys.argv[1]), *sys.argv[2:]
folder.mkdir(parents=True, exist_ok=True)
with open(folder / "starts", "a") as file:
    file.write(f"{os.getpid()}\\n")
settings = {"task": "mnist", "algo": "fedavg", "data": "embedded: x", "rounds": int(rounds)}
(folder / "config.json").write_text(json.dumps({"settings": settings}))
for done in range(1, int(rounds) + 1):
    time.sleep(float(seconds))
    (folder / "metrics.csv").write_text("round,seconds\\n" + "1,1\\n" * done)
if message.startswith("diverged"):
    (folder / "summary.json").write_text(json.dumps({"diverged_at_round": int(rounds)}))
if message:
    sys.exit(f"error: {message}")
(folder / "weights.npz").write_text("")
(folder / "curves.png").write_text("")
(folder / "summary.json").write_text(json.dumps({"rounds": int(rounds)}))
"""


def plan(name, scale=1.0, only="", seeds=1, **given):
    """The plan of a recipe with these flags."""
    return recipe_plan.create(recipe_plan.Options(name, scale, only, seeds, given))


def fake_run(folder, name, rounds=2, seconds=0.01, message=""):
    """A run of `FAKE` instead of an experiment."""
    row = schema.Row(name, name)
    place = folder / name / "seed-0"
    arguments = ("-c", FAKE, str(place), str(rounds), str(seconds), message)
    experiment = types.SimpleNamespace(
        settings=types.SimpleNamespace(rounds=rounds, target_accuracy=None),
        task=types.SimpleNamespace(name="mnist"),
    )
    log = folder / "logs" / f"{name}.log"
    return recipe_plan.Run(row, 0, arguments, place, log, experiment, is_embedded=True)


def starts(run):
    """The processes that have worked on a run of `FAKE`."""
    return [int(pid) for pid in (run.folder / "starts").read_text().split()]
