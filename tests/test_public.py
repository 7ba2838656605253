"""The names that `import tff_partial` gives."""

import asyncio
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import tff_partial
from tests import tiny
from tff_partial.cli import run as run_command
from tff_partial.results import metrics

ROOT = pathlib.Path(__file__).parents[1]
SMALL = {
    "task": "mnist",
    "algo": "embracing",
    "data": "embedded",
    "model": "mlp_100",
    "clients": 6,
    "clients_per_round": 3,
    "rounds": 3,
    "local_steps": 2,
    "learning_rate": 0.1,
    "embracing_head_statistics": "batch",
    "augment": False,
    "device_speeds": "0.5,1",
}

pytestmark = pytest.mark.usefixtures("keep_runtime")


def test_importing_the_package_is_quick():
    code = (
        "import sys, tff_partial; assert 'run' in dir(tff_partial); "
        "assert set(tff_partial.__all__) <= set(dir(tff_partial)); tff_partial.LocalTraining; "
        "tff_partial.algorithms.fedavg; "
        "sys.exit('tensorflow' in sys.modules or 'tensorflow_federated' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_names_that_are_not_there():
    for module in (tff_partial, tff_partial.algorithms):
        with pytest.raises(AttributeError, match="no attribute 'fedsgd'"):
            module.fedsgd  # noqa: B018


def without_seconds(folder):
    rows = metrics.read(str(folder))
    return [{name: v for name, v in row.items() if name != "seconds"} for row in rows]


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "minst"}, "task must be one of"),
        ({"rounds": 0}, "rounds must be at least 1. Received: rounds=0"),
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


@pytest.mark.parametrize("algo", ["fedavg", "fedumf", "vrl_sgd"])
def test_simulate_is_the_rounds_of_a_process(algo):
    """With all clients it gives what calling the process gives."""
    local = tff_partial.LocalTraining(steps=3, batch_size=4, learning_rate=0.1)
    data = tiny.client_data()
    results = list(tff_partial.simulate(tiny.build(algo, local), data, rounds=3))
    by_hand = tiny.Rounds(tiny.build(algo, local), data)
    # The loop's cohorts are drawn in a random order, which only rounding sees.
    for result in results:
        by_hand.next()
        weights = tiny.flat(by_hand.process.get_model_weights(result.state))
        for a, b in zip(weights, by_hand.weights()):
            np.testing.assert_allclose(a, b, atol=1e-6)
        assert result.metrics["client_work"]["train_examples"] > 0


def test_simulate_draws_clients_and_knows_tiers():
    local = tff_partial.LocalTraining(steps=3, batch_size=4)
    process = tiny.build("fedpmt", local, tiers=("strong", "1"))
    *_, last = tff_partial.simulate(process, tiny.client_data(), 2, tiers=[0, 1, 1])
    assert last.metrics["client_work"]["train_accuracy_1"] >= 0
    *_, last = tff_partial.simulate(process, tiny.client_data(), 2, 1, tiers=[0, 0, 0])
    assert np.isnan(last.metrics["client_work"]["train_accuracy_1"])
    for wrong in ({"clients_per_round": 4}, {"clients_per_round": 0}, {"tiers": [0]}):
        with pytest.raises(ValueError, match="Received: "):
            tff_partial.simulate(process, tiny.client_data(), 1, **wrong)


def test_clients_are_records_for_a_process():
    process = tiny.build("fedavg", tff_partial.LocalTraining(steps=2, batch_size=4))
    records = tff_partial.clients(tiny.client_data(), seed=1, tiers=[0, 0, 0])
    output = process.next(process.initialize(), records)
    assert output.metrics["client_work"]["train_examples"] > 0
    assert [int(next(iter(record))["client_id"]) for record in records] == [0, 1, 2]


def test_the_public_classes_are_the_library_s():
    model = tff_partial.Model(tiny.create_dense, (tiny.FEATURES,))
    assert isinstance(model, tff_partial.ModelSpec)
    assert tff_partial.algorithms.scaffold.ALGORITHM.name == "scaffold"
