"""One battery over all algorithms and runtimes: the same seed gives the same weights."""

import functools
import subprocess
import sys

import numpy as np
import portpicker
import pytest
import tensorflow_federated as tff

from tests import tiny
from tff_partial import runtime
from tff_partial.algorithms import registry
from tff_partial.core.local_training import LocalTraining
from tff_partial.runtime.workers import process as worker_process

ALGORITHMS = sorted(registry.ALGORITHMS)


@pytest.fixture(scope="module")
def workers():
    started = []
    for _ in range(2):
        port = portpicker.pick_unused_port()
        started.append(worker_process.WorkerProcess(worker_process.worker_command(port), port))
    yield [f"localhost:{worker.port}" for worker in started]
    for worker in started:
        worker.stop()


@functools.cache
def build(name, several_workers):
    """The process, built once for all runtimes."""
    local = LocalTraining(steps=4, batch_size=4, learning_rate=0.1, momentum=0.9)
    params = {}
    if "tiers" in registry.ALGORITHMS[name].needs:
        params["tiers"] = registry.ALGORITHMS[name].params().tiers[:3]
    process = tiny.build(name, local, tiny.spec(batch_norm=True), population=5, **params)
    return process.in_steps() if several_workers else process


def three_rounds(name, default_runtime, runtime_name, **options):
    """Weights after three rounds on a runtime; the session's own is put back afterwards."""
    several = len(options.get("workers", ())) > 1 and "active" in registry.ALGORITHMS[name].needs
    process = build(name, several)
    context = runtime.set_default(runtime_name, **options)
    try:
        state, _ = tiny.run(process, tiny.client_data((12, 7, 20, 5, 9)), rounds=3, tiers=3)
        return tiny.flat(process.get_model_weights(state))
    finally:
        tff.framework.set_default_context(default_runtime)
        context.close()


@pytest.fixture(scope="module")
def expected(default_runtime):
    """Algorithm -> its weights, computed when they are first asked for."""
    options = {"runtime_name": "in_process", "client_parallelism": 1}
    return functools.cache(lambda name: three_rounds(name, default_runtime, **options))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_in_process_does_not_depend_on_the_parallelism(name, expected, default_runtime):
    actual = three_rounds(name, default_runtime, "in_process", client_parallelism=4)
    for a, b in zip(actual, expected(name)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_local_cpp_agrees(name, expected, default_runtime):
    for a, b in zip(three_rounds(name, default_runtime, "local_cpp"), expected(name)):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("count", [1, 2])
def test_remote_agrees(name, count, expected, workers, default_runtime):
    actual = three_rounds(name, default_runtime, "remote", workers=workers[:count])
    for a, b in zip(actual, expected(name)):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"name": "gpu"},
        {"name": "remote"},
        {"name": "in_process", "workers": ["localhost:1"]},
        {"name": "local_cpp", "client_parallelism": 2},
        {"name": "in_process", "client_parallelism": 0},
    ],
)
def test_options_that_do_not_belong_are_refused(options):
    with pytest.raises(ValueError, match="Received"):
        runtime.create(**options)


def test_bad_addresses_are_refused_without_tff():
    """TFF, once imported, may write a traceback when Python ends."""
    code = (
        "import sys\nfrom tff_partial import runtime\n"
        "try:\n    runtime.check('remote', ['garbage'])\n"
        "except ValueError as error:\n    print(error)\n"
        "sys.exit('tensorflow_federated' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].endswith("Received: 'garbage'")


def test_where_a_device_is_missing_tffs_own_context_is_replaced_all_the_same(monkeypatch):
    """It would report an error of its own when Python ends."""
    replaced = []
    monkeypatch.setattr(runtime, "_is_unset", lambda: True)
    monkeypatch.setattr(tff.framework, "set_default_context", replaced.append)
    with pytest.raises(ValueError, match="devices must be of CPU:0"):
        runtime.configure("in_process", ["GPU:7"])
    assert replaced
