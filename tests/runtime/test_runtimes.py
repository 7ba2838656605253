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
from tff_partial.runtime.workers import local_cpp
from tff_partial.runtime.workers import process as worker_process

ALGORITHMS = sorted(registry.ALGORITHMS)


@pytest.fixture(scope="module")
def contexts():
    """A context of each runtime, for all algorithms.

    A computation is compiled once for all workers, which train a client at a time: so each of their
    graphs is made once.
    """
    compile_once = functools.cache(tff.backends.native.desugar_and_transform_to_native)
    started = []
    for _ in range(2):
        port = portpicker.pick_unused_port()
        command = worker_process.worker_command(port, max_concurrent_computation_calls=1)
        started.append(worker_process.WorkerProcess(command, port))
    addresses = [f"localhost:{worker.port}" for worker in started]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tff.backends.native, "desugar_and_transform_to_native", compile_once)
        made = {
            "in_process": runtime.create("in_process", client_parallelism=4),
            "local_cpp": local_cpp.create_context(max_concurrent_computation_calls=1),
            "one worker": runtime.create("remote", addresses[:1]),
            "two workers": runtime.create("remote", addresses),
        }
        yield made
    for context in made.values():
        context.close()
    for worker in started:
        worker.stop()


@functools.cache
def model():
    return tiny.spec(batch_norm=True)


@functools.cache
def build(name):
    """The process, built once for all runtimes."""
    local = LocalTraining(steps=4, batch_size=4, learning_rate=0.1, momentum=0.9)
    params = {}
    if "tiers" in registry.ALGORITHMS[name].needs:
        params["tiers"] = registry.ALGORITHMS[name].params().tiers[:2]
    return tiny.build(name, local, model(), population=5, **params)


def weights_on(context, name, in_steps=False):
    """Weights after two rounds on a runtime."""
    process = build(name).in_steps() if in_steps else build(name)
    with tff.framework.get_context_stack().install(context):
        state, _ = tiny.run(process, tiny.client_data((12, 7, 20, 5, 9)), rounds=2, tiers=2)
        return tiny.flat(process.get_model_weights(state))


@pytest.fixture(scope="module")
def expected(contexts):
    """Algorithm -> its weights, computed by one thread when they are first asked for."""

    def in_one_thread(name):
        context = contexts["in_process"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(context._threads, "_count", 1)
            return weights_on(context, name)

    return functools.cache(in_one_thread)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_in_process_does_not_depend_on_the_parallelism(name, expected, contexts):
    for a, b in zip(weights_on(contexts["in_process"], name), expected(name)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("where", ["local_cpp", "one worker", "two workers"])
def test_workers_agree(name, where, expected, contexts):
    in_steps = where == "two workers" and "active" in registry.ALGORITHMS[name].needs
    actual = weights_on(contexts[where], name, in_steps)
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
