"""Commands that repeat runs, without paths of the machine."""

import json
import shlex
import types

import pytest
from absl import flags

import tasks
from tests.report.report_folders import rendered, row, write_recipe, write_run
from tff_partial.cli import run as run_experiment
from tff_partial.experiments import config
from tff_partial.experiments import flags as run_flags
from tff_partial.report import commands, sections


@pytest.mark.parametrize(
    ("seeds", "command"),
    [
        ((), "python run_experiment.py"),
        ((0,), "python run_experiment.py"),
        ((2,), "python run_experiment.py --seed=2"),
        ((0, 1), "for seed in 0 1; do python run_experiment.py --seed=$seed; done"),
    ],
)
def test_the_command_of_a_recipes_row_has_the_seeds_that_were_run(results, seeds, command):
    folder = write_recipe(results, [row("a", 50.0)])
    for seed in seeds:
        write_run(folder / "a" / f"seed-{seed}", [0.5], seed=seed)
    (section,) = sections.find([str(results)])
    assert section.rows[0].command == command


def test_no_path_of_the_machine_is_shown(results, tmp_path):
    command = (
        f"/opt/venv/bin/python run_experiment.py --data_dir=/srv/data --algo=fedavg "
        f"--output_dir={results}/recipes/x --embracing_record_dir='/var/tmp/r'"
    )
    folder = write_recipe(results, [row("a", 1.0, command)])
    write_run(folder / "a" / "seed-0", [0.5])
    write_run(results / "b", [0.5])
    for text in rendered(results):
        assert str(tmp_path) not in text
        assert "/srv" not in text
        assert "/opt/venv" not in text
        assert "/var/tmp" not in text
    assert commands.clean(command, [str(results)]) == (
        "python run_experiment.py --data_dir=<folder> --algo=fedavg "
        "--output_dir=results/recipes/x --embracing_record_dir='<folder>'"
    )


def identity(arguments, data):
    values = flags.FlagValues()
    run_experiment.define_flags(values)
    values(["run", *arguments])
    given = run_experiment.settings_of(values)
    created = config.create(**{n: v for n, v in given.items() if n in run_flags.DECIDING})
    return {
        **created.identity(data),
        "device_speeds": list(created.devices.speeds),
        "round_deadline": values.round_deadline,
        "full_model_seconds": values.full_model_seconds,
    }


EXPERIMENTS = {
    "defaults": ["--task=mnist", "--algo=fedavg"],
    "schedule": [
        "--task=cifar10",
        "--algo=fedavg",
        "--learning_rate=0.4~6.1,500:0.04",
        "--augment",
    ],
    "tiers": ["--task=imdb", "--algo=embracing", "--embracing_head_statistics=batch", "--seed=3"],
    "devices": ["--task=mnist", "--algo=fedpmt", "--device_speeds=0.2,1", "--round_deadline=26.5"],
    "bool": ["--task=mnist", "--algo=fedumf", "--fedumf_literal", "--clip_norm=10"],
    "paper": ["--task=mnist", "--algo=feddc", "--preset=paper"],
    "optimizers": [
        *("--task=mnist", "--algo=fedavg", "--local_optimizer=adam", "--local_beta_1=0.5"),
        *("--server_optimizer=fedadam", "--server_learning_rate=0.1"),
    ],
    "no target": ["--task=mnist", "--algo=fedavg", "--target_accuracy=0"],
}


@pytest.mark.parametrize("arguments", EXPERIMENTS.values(), ids=EXPERIMENTS.keys())
def test_the_command_of_a_single_run_gives_the_same_settings(results, arguments):
    if "--preset=paper" in arguments:
        task = tasks.TASKS["mnist"]
        other = next(name for name in task.papers if name != task.default_paper)
        arguments = [*arguments, f"--paper={other}"]
    data = types.SimpleNamespace(description="real: set 1.0")
    settings = identity(arguments, data)
    write_run(results / "a", [0.5], **settings)
    (section,) = sections.find([str(results)])
    python, script, *repeated = shlex.split(section.rows[0].command)
    assert (python, script) == ("python", "run_experiment.py")
    assert identity(repeated, data) == settings
    assert "--data=tfds" in repeated
    assert "--data_dir=<folder>" in repeated


def test_commands_name_what_is_the_users(results):
    own = {"task": "my_module:TASK#12345678", "model": "my_module:create#90abcdef"}
    write_run(results / "a", [0.5], **own)
    write_run(results / "b", [0.5], model="tests.own:<lambda>#90abcdef")
    write_run(results / "c", [0.5], data="own: 4 clients, 40 test examples", task="own")
    found = sections.find([str(results)])
    first, *others = sorted(row.command for section in found for row in section.rows)
    assert "--task=my_module:TASK " in first
    assert "--model=my_module:create" in first
    assert [command.partition("#")[0] for command in others] == ["tff_partial.run(...) "] * 2


@pytest.mark.parametrize(
    ("preset", "paper", "source", "flag"),
    [
        ("paper", "mine", "FedUMF, section 5", "--paper=mine"),
        ("paper", None, "FedUMF, appendix A", "--paper=fedumf_appendix"),  # of an older run
        ("paper", None, "Somebody, table 1", None),
        ("demo", None, "", None),
    ],
)
def test_the_command_names_the_paper_of_a_preset(results, preset, paper, source, flag):
    folder = write_run(results / "a", [0.5], preset=preset, source=source)
    config = json.loads((folder / "config.json").read_text())
    config["execution"]["paper"] = paper
    (folder / "config.json").write_text(json.dumps(config))
    (section,) = sections.find([str(results)])
    words = shlex.split(section.rows[0].command)
    assert [word for word in words if word.startswith("--paper=")] == [*filter(None, [flag])]
