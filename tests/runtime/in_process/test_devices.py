"""Where graphs run."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.runtime.in_process.computations import create_round, initial, records, run
from tff_partial.algorithms import registry
from tff_partial.runtime.in_process import context as in_process
from tff_partial.runtime.in_process import devices

LOGICAL = "tests.runtime.in_process.logical_devices"


def run_on_logical_devices(folder, *algorithms):
    """What `logical_devices` writes: digests of weights, and where operations ran."""
    command = [sys.executable, "-m", LOGICAL, str(folder / "digests.json"), *algorithms]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0"}
    with open(folder / "log", "w") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log, env=environment)
    return json.loads((folder / "digests.json").read_text()), (folder / "log").read_text()


@pytest.fixture
def two_gpus(monkeypatch):
    """A machine with a CPU and two GPUs."""
    listed = {"CPU": ["cpu"], "GPU": ["first", "second"]}
    monkeypatch.setattr(tf.config, "list_physical_devices", listed.get)
    monkeypatch.setattr(tf.config, "get_logical_device_configuration", lambda device: None)
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda *args: None)


def test_all_gpus_are_used_by_default(two_gpus):
    gpus = ["/device:GPU:0", "/device:GPU:1"]
    assert devices.choose() == gpus
    assert devices.choose(["gpu:1", "GPU:0"]) == gpus[::-1]
    assert devices.choose(["/device:GPU:1", "CPU:0"]) == [gpus[1], devices.CPU]


def test_the_cpu_is_used_where_there_is_no_gpu():
    assert devices.choose() == [devices.CPU]


@pytest.mark.parametrize("names", [["GPU:2"], ["CPU:7"], ["nonsense"], ["GPU:0", "gpu:0"], [""]])
def test_devices_that_are_not_there_are_refused(names, two_gpus):
    with pytest.raises(ValueError, match="devices must be of CPU:0, GPU:0, GPU:1, each once"):
        devices.choose(names)


def test_results_do_not_depend_on_the_devices(tmp_path):
    digests, _ = run_on_logical_devices(tmp_path)
    assert sorted(digests) == sorted(registry.ALGORITHMS)
    assert sorted(digests["fedavg"]) == ["host", "one", "two"]
    assert {name for name, found in digests.items() if len(set(found.values())) > 1} == set()


def test_clients_compute_on_the_devices_and_data_sets_stay_on_the_host(tmp_path):
    _, log = run_on_logical_devices(tmp_path, "fedavg")
    placed = re.findall(r"(\S+): \((\w+)\): \S+/device:(CPU:\d)", log)
    kernels = {device for name, op, device in placed if op == "VarHandleOp" and "kernel" in name}
    assert kernels == {"CPU:0", "CPU:1", "CPU:2"}  # CPU:0 in the setting `host`
    data_sets = {device for _, op, device in placed if "Dataset" in op}
    assert data_sets == {"CPU:0"}
    products = {device for _, op, device in placed if op == "MatMul"}
    assert products >= {"CPU:1", "CPU:2"}


def test_data_sets_and_strings_stay_on_the_cpu():
    with tf.Graph().as_default() as graph:
        variant = tf.compat.v1.placeholder(tf.variant, (), "variant")
        same = tf.identity(variant, "same")
        data = tf.data.experimental.from_variant(same, tf.TensorSpec([], tf.float32))
        number = data.map(lambda x: x + 1.0).get_single_element()
        tf.multiply(number, 2.0, "product")
        tf.strings.as_string(number, name="text")
        with tf.device("/device:GPU:1"):
            tf.add(number, 1.0, "chosen")
    nodes = graph.as_graph_def().node
    placed = dict(zip((node.name for node in nodes), devices.place(nodes)))
    on_cpu = {"variant", "same", "text", *(node.name for node in nodes if "Dataset" in node.op)}
    assert {name for name, device in placed.items() if device == devices.CPU} == on_cpu
    assert placed["product"] == ""
    assert placed["chosen"] == "/device:GPU:1"


@pytest.mark.gpu
@pytest.mark.skipif(not tf.config.list_physical_devices("GPU"), reason="TensorFlow sees no GPU")
def test_gpu_equals_cpu():
    run_round = create_round()
    gpu, cpu = (in_process.InProcessContext(devices=[name]) for name in ("GPU:0", "CPU:0"))
    assert gpu.client_parallelism == 1
    on_gpu, _ = run(gpu, run_round, initial(), records(5))
    on_cpu, _ = run(cpu, run_round, initial(), records(5))
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-4, atol=1e-4)
