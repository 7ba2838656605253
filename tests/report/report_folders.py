"""Run folders and recipes, written by hand for tests of the report, and what it makes of them."""

import json
import re

from tff_partial.report import markdown, page, sections

SETTINGS = {
    "task": "mnist",
    "algo": "fedavg",
    "preset": "demo",
    "data": "real: mnist 3.0.1",
    "model": "mlp_100",
    "partition": "iid",
    "clients": 4,
    "clients_per_round": 2,
    "rounds": 4,
    "batch_size": 8,
    "learning_rate": "0.1*0.998",
    "momentum": 0.5,
    "local_steps": 2,
    "tiers": "",
    "target_accuracy": 0.5,
    "seed": 0,
}
EMBEDDED = "embedded: digits"
MARK = "not the real set"
COLUMNS = (
    "round",
    "train_loss",
    "train_accuracy",
    "test_loss",
    "test_accuracy",
    "seconds",
    "bytes_down",
    "bytes_up",
    "simulated_seconds",
)


def write_run(
    folder, accuracies, is_real=True, summary=None, extra=None, tier_costs=None, **settings
):
    """A run with these test accuracies ('' where it was not evaluated).

    A round sends 1,000,000 bytes down and 500,000 up, and takes 10 simulated seconds.

    Args:
      folder: Where.
      accuracies: Of the rounds.
      is_real: What config.json says of the data; None for a run from before it said so.
      summary: More figures of summary.json.
      extra: Column of metrics.csv -> its value in every round.
      tier_costs: What config.json says that tiers take.
      settings: Those that differ from SETTINGS; rounds are as many as there are accuracies.
    """
    folder.mkdir(parents=True)
    data = {"data": EMBEDDED} if is_real is False else {}
    all_settings = {**SETTINGS, **data, "rounds": len(accuracies), **settings}
    execution = {"runtime": "in_process", "data_dir": "/srv/data"}
    if tier_costs is not None:
        execution["tier_costs"] = tier_costs
    if is_real is not None:
        execution["data_is_real"] = is_real
    config = {"settings": all_settings, "execution": execution, "versions": {}}
    (folder / "config.json").write_text(json.dumps(config))
    extra = extra or {}
    lines = [",".join([*COLUMNS, *extra])]
    for i, accuracy in enumerate(accuracies, start=1):
        values = (i, 1.0, 0.5, 1.0, accuracy, 0.1, 1_000_000, 500_000, 10.0, *extra.values())
        lines.append(",".join(map(str, values)))
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
    (folder / "summary.json").write_text(json.dumps({"average_capacity": 1.0, **(summary or {})}))
    return folder


def row(name, paper=None, command="python run_experiment.py", **changes):
    """A row of recipe.json; `paper` is the paper's figure, or all that stands there."""
    found = paper
    if not isinstance(paper, dict):
        found = {"value": paper, "spread": None, "text": "" if paper is None else f"{paper}"}
    return {
        "id": name,
        "label": name,
        "columns": {"method": name, "share": "50 %"},
        "command": command,
        "paper": found,
        **changes,
    }


def write_recipe(results, rows, name="embracing/table3", scale=0.1, **changes):
    """recipe.json below the results folder; returns the folder of its rows."""
    folder = results / "recipes" / name / f"scale-{scale:g}"
    folder.mkdir(parents=True)
    content = {
        "recipe": name,
        "title": "Accuracy by share of weak clients",
        "paper": "Lee et al., 2024",
        "kind": "runs",
        "scale": scale,
        "scale_rule": "a tenth of the rounds",
        "metric": {
            "name": "best_test_accuracy",
            "label": "best test accuracy",
            "higher_is_better": True,
            "unit": "%",
        },
        "rows": rows,
        "notes": [],
        **changes,
    }
    (folder / "recipe.json").write_text(json.dumps(content))
    return folder


def tables(text):
    """The Markdown tables of a document: a list of (head -> cell) for each."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        lines = [re.split(r" (?<!\\)\| ", line.strip("| ")) for line in block.splitlines()]
        found.append([dict(zip(lines[0], line)) for line in lines[2:]])
    return found


def rendered(folder):
    """The report of a folder as Markdown and as a page."""
    found = sections.find([str(folder)])
    return markdown.render(found), page.render(found)


def write(path, text):
    """A file, in a folder that need not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
