"""The command that prints costs."""

import json
import re
import subprocess
import sys

import pytest

from tff_partial import tiers
from tff_partial.algorithms import registry
from tff_partial.cli import costs as costs_command


def test_table_of_a_model_beside_the_papers(capsys):
    assert costs_command.main(["--model=fedpmt_fcnn", "--batch_size=12", "--tiers=strong,2"]) == 0
    out = capsys.readouterr().out
    assert "15,301,360   1.00  15,305,968         1.00  -4,608" in out
    assert out.count("equal") == 3
    assert costs_command.main(["--model=femnist_cnn", "--tiers=moderate"]) == 0
    assert "6,551,614 / 2,110 / 0.99 equal" in capsys.readouterr().out


def test_papers_figures_only_for_the_papers_input():
    changed = costs_command.report("femnist_cnn", (28, 28, 1), 10, 32, tiers.as_tiers(["strong"]))
    assert {row["paper"] for row in changed["rows"]} == {""}


def test_json_for_another_task(capsys):
    assert costs_command.main(["--model=mlp_100", "--task=cifar100", "--tiers=0.5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["input_shape"], found["num_classes"]) == ([32, 32, 3], 100)
    styles = [(row["style"], row["tier"]) for row in found["rows"]]
    assert styles == [
        *((style, "0.5") for style in ("embracing", "fedpmt", "prefix", "channel")),
        ("width", "0.45"),
        ("width", "0.2"),
    ]
    assert found["fedpmt_table_2"] == []


COMPARE = ["--model=mlp_100", "--batch_size=2", "--compare=embracing,heterofl,channel"]


def test_algorithms_side_by_side_at_a_budget(capsys):
    assert costs_command.main([*COMPARE, "--tier=memory:0.5", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["algorithm"], row["tier"]) for row in rows] == [
        (algo, "memory:0.5") for algo in ("embracing", "heterofl", "channel")
    ]
    assert all(row["memory"] <= 0.5 for row in rows[:2])
    assert rows[1]["memory"] > 0.49
    assert rows[2]["memory"] == 1
    assert costs_command.main([*COMPARE, "--tier=memory:0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.split(r"  +", lines[2]) == [
        *("algorithm", "tier", "memory", "compute", "parameters", "MB down", "MB up")
    ]
    assert lines[4].startswith("heterofl   memory:0.5")
    assert lines[-1].startswith("channel: tier memory:0.5 takes 1 of the memory: ")


def test_an_algorithm_without_tiers_has_one_row_for_comparison(capsys):
    names = [name for name, known in registry.ALGORITHMS.items() if "tiers" not in known.needs]
    args = ["--model=mlp_100", f"--compare={','.join(names)},heterofl", "--tier=1/2,1/4", "--json"]
    assert costs_command.main(args) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["algorithm"] for row in rows] == [*names, "heterofl", "heterofl"]
    for row in rows[: len(names)]:
        assert (row["tier"], row["memory"]) == ("all", 1)
        assert row["note"] == "has no tiers: all clients do the same"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--model=resnet"],
            "model must be one of .* Received: model='resnet'. Did you mean resnet20\\?",
        ),
        (
            ["--task=cifar"],
            "task must be one of .* Received: task='cifar'. Did you mean cifar10\\?",
        ),
        (["--batch_size=0"], "batch_size must be a positive integer. Received: batch_size='0'"),
        (["--num_classes=x"], "num_classes must be a positive integer. Received: num_classes='x'"),
        (["--num_classes=1"], "num_classes must be at least 2. Received: num_classes=1"),
        (["--task=imdb"], "model must take token inputs .* Received: model='resnet20'"),
        (["--model=softmax", "--tiers=1"], ".* must be at most 0 for this model. Received: 1"),
        (["--compare=fedavgg"], "compare must be one of .*='fedavgg'. Did you mean fedavg\\?"),
        (["--tier=strong"], "tier must be given with compare. Received: tier='strong'"),
        ([*COMPARE, "--tier=time:1"], "a budget must be memory, .* Received: tier='time:1'"),
        (["--models=softmax"], "flags must be as in --help: .* Did you mean --model\\?"),
    ],
)
def test_bad_input_is_one_line(args, message, capsys):
    assert costs_command.main(args) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(f"error: {message}\n", captured.err), captured.err


def test_the_module_is_a_command():
    command = [sys.executable, "-W", "error", "-m", "tff_partial.costs", "--model=resnet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch("error: model must be one of .*\n", done.stderr), done.stderr


def test_importing_does_not_import_tensorflow():
    code = "import sys, tff_partial.cli.costs; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
