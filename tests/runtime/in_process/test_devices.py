"""Where graphs run."""

import numpy as np
import pytest
import tensorflow as tf

from tests.runtime.in_process.computations import create_round, initial, records, run
from tff_partial.runtime.in_process import context as in_process
from tff_partial.runtime.in_process import devices


def test_devices():
    gpus = ["/device:GPU:0", "/device:GPU:1"]
    assert devices.choose(None, []) == devices.CPU
    assert devices.choose(None, gpus) == gpus[0]
    assert devices.choose(gpus[1], gpus) == gpus[1]
    assert devices.choose(devices.CPU, gpus) == devices.CPU
    with pytest.raises(ValueError, match="device must be"):
        devices.choose(gpus[0], [])


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
    gpu, cpu = (
        in_process.InProcessContext(device=device) for device in ("/device:GPU:0", devices.CPU)
    )
    assert gpu.client_parallelism == 1
    on_gpu, _ = run(gpu, run_round, initial(), records(5))
    on_cpu, _ = run(cpu, run_round, initial(), records(5))
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-4, atol=1e-4)
