"""Three rounds of every algorithm on logical CPUs, in a process of its own.

    python -m tests.runtime.in_process.logical_devices RESULTS.json

TensorFlow divides its CPU before it starts and never again. CPU:1 and CPU:2 stand for accelerators.
Where operations run is logged to stderr, of one more round of FedAvg on CPU:1 and CPU:2.
"""

import hashlib
import json
import sys

import numpy as np

from tff_partial import runtime
from tff_partial.core import lazy
from tff_partial.core.lazy import tf, tff

SETTINGS = {"host": ["CPU:0"], "one": ["CPU:1"], "two": ["CPU:1", "CPU:2"]}


def main(path):
    lazy.load()
    cpu = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration() for _ in range(3)]
    tf.config.set_logical_device_configuration(cpu, parts)
    from tests.runtime.test_runtimes import ALGORITHMS

    contexts = {
        name: runtime.create("in_process", devices=devices) for name, devices in SETTINGS.items()
    }
    results = {
        algorithm: {name: digest(algorithm, context) for name, context in contexts.items()}
        for algorithm in ALGORITHMS
    }
    with open(path, "w") as file:
        json.dump(results, file)
    tf.debugging.set_log_device_placement(True)
    digest("fedavg", runtime.create("in_process", devices=SETTINGS["two"]))


def digest(algorithm, context):
    from tests import tiny
    from tests.runtime.test_runtimes import build

    process = build(algorithm, False)
    with tff.framework.get_context_stack().install(context):
        state, _ = tiny.run(process, tiny.client_data((12, 7, 20, 5, 9)), rounds=3, tiers=3)
        weights = tiny.flat(process.get_model_weights(state))
    return hashlib.sha256(b"".join(np.asarray(w).tobytes() for w in weights)).hexdigest()


if __name__ == "__main__":
    main(sys.argv[1])
