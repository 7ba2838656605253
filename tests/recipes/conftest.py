"""A tiny recipe, one of whose rows cannot be run."""

import pytest

TINY = """
title = "Table 0: a tiny one"
paper = "Nobody, 2024"
kind = "runs"
notes = ["A note."]

[metric]
name = "best_test_accuracy"
label = "best test accuracy"
unit = "%"
higher_is_better = true

[settings]
task = "mnist"
paper = "fedumf"
model = "softmax"
clients_per_round = 20

[[rows]]
id = "average"
label = "FedAvg"
settings = { algo = "fedavg" }
paper = "90.5 ± 0.5"

[[rows]]
id = "proximal"
label = "FedProx"
settings = { algo = "fedprox", fedprox_mu = 0.1 }
paper = "91"

[[rows]]
id = "broken"
label = "broken"
settings = { algo = "fedavg", partition = "classes:20" }
paper = "*"
"""


@pytest.fixture
def tiny(tmp_path):
    """The flags of the recipe."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "tiny.toml").write_text(TINY)
    return [
        f"--recipe={folder / 'tiny.toml'}",
        "--scale=0.013",
        "--data=embedded",
        f"--output_dir={tmp_path / 'out'}",
    ]
