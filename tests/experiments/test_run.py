"""A run from its settings to its results."""

import asyncio
import json

import numpy as np
import pytest

import tff_partial
from tests.experiments.rounds import without_seconds
from tff_partial.cli import run as run_command
from tff_partial.experiments import config as experiment_config
from tff_partial.experiments import run as experiment_run
from tff_partial.experiments.privacy import Accounting
from tff_partial.results import metrics

SMALL = {
    "task": "mnist",
    "algo": "embracing",
    "data": "embedded",
    "model": "mlp_100",
    "clients": 6,
    "clients_per_round": 3,
    "rounds": 3,
    "eval_examples": 20,
    "local_steps": 2,
    "learning_rate": 0.1,
    "embracing_head_statistics": "batch",
    "augment": False,
    "device_speeds": "0.5,1",
}

pytestmark = pytest.mark.usefixtures("keep_runtime")


@pytest.fixture(scope="module")
def by_command(tmp_path_factory, default_runtime):
    folder = tmp_path_factory.mktemp("command") / "run"
    flags = [f"--{name}={value}" for name, value in SMALL.items()]
    assert run_command.main([*flags, f"--output_dir={folder}"]) == 0
    return folder


@pytest.mark.parametrize("in_event_loop", [False, True])
def test_run_is_the_command(by_command, in_event_loop, tmp_path):
    folder = tmp_path / "run"

    async def notebook():
        return tff_partial.run(**SMALL, output_dir=str(folder))

    if in_event_loop:
        loop = asyncio.new_event_loop()
        result = loop.run_until_complete(notebook())
        loop.close()
    else:
        result = tff_partial.run(**SMALL, output_dir=str(folder))
    names = {path.relative_to(by_command).parts[0] for path in by_command.rglob("*")}
    assert {path.relative_to(folder).parts[0] for path in folder.rglob("*")} == names
    assert (folder / "config.json").read_bytes() == (by_command / "config.json").read_bytes()
    assert without_seconds(folder) == without_seconds(by_command)
    with np.load(by_command / "weights.npz") as expected:
        assert [*result.weights] == expected.files
        for name, array in result.weights.items():
            np.testing.assert_array_equal(array, expected[name])
    assert result.folder == str(folder)
    assert result.rows == metrics.read(str(folder))
    assert result.summary["rounds"] == 3
    assert result.summary["final_test_accuracy"] == result.rows[-1]["test_accuracy"]


def test_rounds_before_the_last_are_tested_on_a_sample(by_command):
    rows = metrics.read(str(by_command))
    assert [row["test_examples"] for row in rows[:2]] == [20, 20]
    assert rows[2]["test_examples"] > 20
    for row in rows[:2]:
        assert (20 * row["sampled_test_accuracy"]) % 1 == pytest.approx(0)
        assert row["test_accuracy"] is None
    summary = json.loads((by_command / "summary.json").read_text())
    assert summary["final_test_accuracy"] == summary["best_test_accuracy"]
    assert summary["sampled_test_examples"] == 20
    assert json.loads((by_command / "config.json").read_text())["settings"]["eval_examples"] == 20


def test_tiers_and_clients_are_tested_from_where_it_is_asked_for(by_command, tmp_path):
    folder = str(tmp_path / "run")
    before = tff_partial.run(**{**SMALL, "rounds": 1}, output_dir=folder).rows[0]
    result = tff_partial.run(**SMALL, evaluate="tiers,clients", output_dir=folder)
    plain = metrics.read(str(by_command))
    kinds = ("client_accuracy_mean", "client_accuracy_lowest_tenth", "client_accuracy_spread")
    kinds += ("accuracy_strong", "accuracy_moderate", "accuracy_weak")
    added = {*result.rows[1]} - {*plain[1]}
    assert added == {f"{test}_{kind}" for kind in kinds for test in ("test", "sampled_test")}
    assert result.rows[0] == {**dict.fromkeys(result.rows[0]), **before}
    for row, same in zip(result.rows[1:], plain[1:]):
        assert all(row[name] == value for name, value in same.items() if name != "seconds")
    first, last = result.rows[1:]
    assert last["test_accuracy_weak"] == last["test_accuracy"]
    assert first["sampled_test_accuracy_weak"] == first["sampled_test_accuracy"]
    assert first["test_accuracy_weak"] is None
    assert result.summary["final_test_accuracy_weak"] == last["test_accuracy"]
    lowest, mean = (last[f"test_client_accuracy_{name}"] for name in ("lowest_tenth", "mean"))
    assert 0 <= lowest <= mean <= 1
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert [*config["execution"]["tier_costs"]] == ["strong", "moderate", "weak"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"evaluate": "server,tier"}, "evaluate must be one of .*='tier'. Did you mean tiers"),
        ({"task": "minst"}, "task must be one of"),
        ({"rounds": 0}, "rounds must be at least 1. Received: rounds=0"),
        ({"eval_examples": 0}, "eval_examples must be at least 1. Received: eval_examples=0"),
        ({"rounds": 2.5}, "rounds must be an integer. Received: rounds=2.5"),
        ({"round": 3}, r"settings must be flags of run_experiment.py. Received: \['round'\]"),
        ({"fedumf_alpha": 0.5}, "fedumf_alpha must be used with algo='fedumf'"),
        ({"embracing_head_statistics": "none"}, "head_statistics must"),
        ({"runtime": "gpu"}, "runtime must be one of"),
        ({"client_state_cache": 3}, "client_state_cache must be given with client_state='disk'"),
        ({"device_speeds": "0"}, "speeds must be positive"),
        ({"list": True}, r"Received: \['list'\]"),
    ],
)
def test_bad_settings_are_an_error_and_leave_nothing(change, message, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(ValueError, match=message):
        tff_partial.run(**{**SMALL, **change}, output_dir=str(folder))
    assert not folder.exists()


def test_a_run_that_diverges_raises_and_has_its_files(tmp_path):
    with pytest.raises(Exception, match="diverged in round 1"):
        tff_partial.run(**{**SMALL, "learning_rate": 1e38}, output_dir=str(tmp_path / "run"))
    assert (tmp_path / "run" / "summary.json").exists()


def test_config_of_a_run_says_whether_its_data_are_real(tmp_path):
    settings = {"task": "mnist", "algo": "fedavg", "data": "embedded", "model": "softmax"}
    experiment_run.prepare(**settings, output_dir=str(tmp_path)).lock.close()
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["execution"]["data_is_real"] is False
    assert "data_is_real" not in config["settings"]
    created = experiment_config.create("mnist", "fedavg", preset="paper", paper="fedpmt")
    assert (config["execution"]["paper"], created.paper) == (None, "fedpmt")


PRIVATE = {
    **{name: value for name, value in SMALL.items() if not name.startswith("embracing")},
    "algo": "fedavg",
    "model": "softmax",
    "eval_every": 2,
    "clients_per_round": 4,
    "aggregation": "dp",
    "dp_noise_multiplier": 1.0,
}


def test_a_private_run_tells_its_epsilon_and_not_who_took_part(tmp_path):
    result = tff_partial.run(**PRIVATE, output_dir=str(tmp_path))
    expected = [Accounting(1.0, 6, 4, "poisson", 6**-1.1).epsilon(t) for t in (1, 2, 3)]
    assert [row["epsilon"] for row in result.rows] == pytest.approx(expected, abs=1e-5)
    assert result.summary["epsilon"] == result.rows[-1]["epsilon"]
    assert result.summary["dp_delta"] == 6**-1.1
    told = {name for name, value in result.rows[-1].items() if value is not None}
    tested = {name for name in told if "test_" in name}
    assert told - tested == {"round", "seconds", "epsilon", "clip"}
    # The state, of texts among others, is found again.
    longer = tff_partial.run(**{**PRIVATE, "rounds": 4}, output_dir=str(tmp_path))
    assert [row["epsilon"] for row in longer.rows[:3]] == [row["epsilon"] for row in result.rows]


def test_tffs_worker_has_no_secure_sum():
    with pytest.raises(ValueError, match=r"runtime must be in_process or ray .*Received"):
        tff_partial.run(**SMALL, aggregation="secure", runtime="local_cpp")
