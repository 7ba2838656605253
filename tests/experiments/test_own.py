"""A user's task, model, data and functions, from Python and from the command line."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import tff_partial
from tests import tiny
from tests.experiments.rounds import without_seconds
from tff_partial.cli import run as run_command
from tff_partial.experiments import own
from tff_partial.experiments.bundled import tasks
from tff_partial.results import metrics

pytestmark = pytest.mark.usefixtures("keep_runtime")

ROOT = pathlib.Path(__file__).parents[2]
MODULE = """
import dataclasses
import tensorflow as tf
import tasks

def create(num_classes):
    sizes = [(8, "relu"), (8, "relu"), (num_classes, None)]
    dense = [tf.keras.layers.Dense(*size) for size in sizes]
    return tf.keras.Sequential([tf.keras.layers.Flatten(), *dense])

def rate(round_num):
    return 0.1 if round_num < 1 else 0.05

def first(clients, count, round_num, seed):
    return clients[round_num : round_num + count]

def squared(labels, logits):
    return tf.reduce_mean((tf.one_hot(labels, logits.shape[-1]) - logits) ** 2, axis=1)

def surprise(labels, logits):
    return 1 - tf.gather(tf.nn.softmax(logits), labels, batch_dims=1)

TASK = dataclasses.replace(
    tasks.TASKS["mnist"], name="own_digits", loss=squared, metrics=("accuracy", surprise)
)
"""
SMALL = ("--clients=6", "--clients_per_round=2", "--local_steps=2", "--data=embedded")


def create_model():
    return tiny.create_dense()


def data():
    """Clients and test data."""
    return tiny.client_data(sizes=(8, 5, 9, 7)), tiny.client_data(sizes=(40,), seed=5)[0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "own_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    sys.modules.pop("own_module", None)
    return tmp_path


def config_of(folder):
    return json.loads((folder / "config.json").read_text())["settings"]


def test_everything_own_on_the_command_line_is_named_resumed_and_extended(folder, capsys):
    names = {"task": "TASK", "model": "create", "learning_rate": "rate", "sampler": "first"}
    flags = [*SMALL, *(f"--{name}=own_module:{value}" for name, value in names.items())]
    flags += ["--algo=heterofl", "--tiers=1:3,1/2:3", "--server_optimizer=fedadam"]
    assert run_command.main([*flags, "--rounds=1", "--output_dir=run"]) == 0
    assert run_command.main([*flags, "--rounds=3", "--output_dir=run"]) == 0
    assert run_command.main([*flags, "--rounds=3", "--output_dir=straight"]) == 0
    settings = config_of(folder / "run")
    for name, value in names.items():
        assert settings[name].startswith(f"own_module:{value}#")
    assert settings == config_of(folder / "straight")
    assert without_seconds(folder / "run") == without_seconds(folder / "straight")
    rows = metrics.read(str(folder / "run"))
    assert 0 < rows[-1]["test_surprise"] < 1
    capsys.readouterr()
    changed = MODULE.replace("else 0.05", "else 0.06")
    (folder / "own_module.py").write_text(changed)
    sys.modules.pop("own_module")
    assert run_command.main([*flags, "--rounds=3", "--output_dir=run"]) == 2
    error = capsys.readouterr().err
    assert "learning_rate='own_module:rate#" in error
    assert error.count("\n") == 1


def test_other_commands_take_an_own_task_and_model_too(folder):
    flags = ["--model=own_module:create", "--task=own_module:TASK"]
    command = [sys.executable, "-m", "tff_partial.costs", *flags, "--tiers=strong,1"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "own_module:create" in done.stdout


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--task=own_module:create"], "task must be one of"),
        (["--task=nowhere:TASK"], "task my_module:name must name a module in this folder"),
        (["--task=mnist", "--model=own_module:missing"], "must name something in own_module"),
        (["--task=mnist", "--model=own_module:TASK"], "model must be a ModelSpec or a function"),
        (["--task=mnist", "--model=own_module:create", "--width=0.5"], "width must be 1"),
        (["--task=mnist", "--learning_rate=own_module:nothing"], "learning_rate my_module:name"),
        (["--task=mnist", "--sampler=random"], "sampler must read like my_module:fn"),
    ],
)
def test_errors_are_one_line_and_nothing_is_written(folder, capsys, flags, message):
    assert run_command.main([*flags, *SMALL, "--output_dir=run"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (folder / "run").exists()


def test_own_clients_and_model_get_all_that_a_run_writes(tmp_path):
    train, test = data()

    def run(rounds, folder, **settings):
        return tff_partial.run(
            model=create_model,
            clients=train,
            test=test,
            algo="embracing",
            clients_per_round=3,
            rounds=rounds,
            output_dir=str(tmp_path / folder),
            **{"tiers": "strong:2,1:2", **settings},
        )

    run(1, "run")
    result = run(3, "run")
    straight = run(3, "straight")
    assert without_seconds(tmp_path / "run") == without_seconds(tmp_path / "straight")
    for name, value in straight.weights.items():
        np.testing.assert_array_equal(value, result.weights[name])
    assert len(result.rows) == result.summary["rounds"] == 3
    assert result.summary["data"].startswith("own: 4 clients, 40 test examples (")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"config.json", "metrics.csv", "summary.json", "curves.png", "weights.npz"} <= names
    settings = config_of(tmp_path / "run")
    assert settings["task"] == "own"
    assert settings["model"].startswith("tests.experiments.test_own:create_model#")
    with pytest.raises(ValueError, match="with learning_rate='0.1' there, 'tests"):
        run(3, "run", learning_rate=lambda round_num: 0.2)
    labels, test = test[1], (test[0] + 1, test[1])
    with pytest.raises(ValueError, match=r"data='own: 4 clients, 40 .* there, 'own: 4 clients, 40"):
        run(3, "run")
    test = (test[0][::-1] - 1, labels[::-1])  # the same in another order
    train.append(train[0])
    with pytest.raises(ValueError, match="with clients=4 there, 5 now; data="):
        run(3, "run", tiers="strong:2,1:3")


def test_a_run_loads_the_clients_that_it_draws_and_a_hundred_for_their_mean_size(tmp_path):
    loaded = []

    def load(client):
        loaded.append(client)
        return tiny.client_data(sizes=(5,), seed=client)[0]

    result = tff_partial.run(
        model=create_model,
        clients=tff_partial.clients(load, ids=1_000_000),
        test=load(7),
        clients_per_round=3,
        rounds=2,
        output_dir=str(tmp_path / "run"),
    )
    assert result.summary["data"].startswith("own: 1,000,000 clients, 5 test examples (")
    assert len(loaded) <= 1 + 101 + 6


def test_clients_are_numbers_of_a_task_or_a_users():
    train, test = data()
    for wrong, message in (
        ({"clients": train}, "test must be given with clients"),
        ({"clients": train, "test": test, "task": "mnist"}, "task must not be given with clients"),
        (
            {"test": test},
            "test, num_classes, loss and metrics must be given with clients of your own",
        ),
        ({"clients": train, "test": (test[0][:0], test[1][:0])}, "at least one example"),
        ({"clients": train, "test": test, "partition": "iid"}, "partition and number of clients"),
    ):
        with pytest.raises(ValueError, match=message):
            tff_partial.run(model=create_model, **wrong)


def test_data_that_do_not_suit_each_other_are_refused_in_one_line():
    train, test = data()
    (x, y), others = train[0], train[1:]
    for clients, tested, message in (
        ([(x, y + 7), *others], test, r"from 0 to 2; .* Received: 7 to 9 of client 0"),
        ([(x, y - 1), *others], test, r"from 0 to 2; .* Received: -1 to 1 of client 0"),
        (train, (test[0], test[1] - 1), "Received: -1 to 1 of the test"),
        ([(x[:, :2], y), *others], test, r"like those of the test, .* Received: \[2\] of float32"),
        ([(x.astype(np.uint8), y), *others], test, "of uint8, client 0"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            own.create_task(clients, tested)
        assert "\n" not in str(caught.value)
    loaded = own.create_task([train[0], (x, y + 7)], test).generate("natural", 2, 0)
    with pytest.raises(ValueError, match="of client 1"):
        loaded.client(1)
    own.create_task([(x, y + 7), *others], test, num_classes=10)


def test_a_task_is_told_from_another_by_its_code():
    mnist = tasks.TASKS["mnist"]
    assert own.task_of("mnist") == (mnist, "mnist")
    names = [own.task_of(each)[1] for each in (mnist, mnist, tasks.TASKS["cifar10"])]
    assert names[0] == names[1] != names[2]
    assert names[0].startswith("mnist#")


def _squared(labels, logits):
    return tf.reduce_mean((tf.one_hot(labels, logits.shape[-1]) - logits) ** 2, axis=1)


def _surprise(labels, logits):
    return 1 - tf.gather(tf.nn.softmax(logits), labels, batch_dims=1)


def test_a_loss_and_metrics_come_with_own_clients(tmp_path):
    clients, test = data()
    result = tff_partial.run(
        model=create_model,
        clients=clients,
        test=test,
        loss=_squared,
        metrics=[_surprise],
        rounds=1,
        output_dir=str(tmp_path / "run"),
    )
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["settings"]["task"].startswith("own#")
    x, y = test
    model = tiny.create_dense()
    model(x)
    model.set_weights(list(result.weights.values()))
    logits = model(x).numpy()
    expected = ((np.eye(tiny.CLASSES)[y] - logits) ** 2).mean()
    np.testing.assert_allclose(result.rows[-1]["test_loss"], expected, rtol=1e-4)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    surprise = 1 - shares[np.arange(len(y)), y].mean()
    np.testing.assert_allclose(result.rows[-1]["test__surprise"], surprise, rtol=1e-4)
    with pytest.raises(ValueError, match="loss and metrics must be given with clients"):
        tff_partial.run(task="mnist", loss=_squared)


def test_the_name_of_own_clients_is_not_for_tasks():
    task = dataclasses.replace(tasks.TASKS["mnist"], name=own.NAME)
    with pytest.raises(ValueError, match="name of a task must not be 'own'"):
        own.task_of(task)
