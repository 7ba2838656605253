"""Rounds of every algorithm on logical CPUs, in a process of its own.

    python -m tests.runtime.in_process.logical_devices RESULTS.json [ALGORITHM]

TensorFlow divides its CPU before it starts and never again. CPU:1 and CPU:2 stand for accelerators.
Where the operations of a single algorithm run is logged to stderr.
"""

import hashlib
import json
import sys

import numpy as np

from tff_partial import runtime
from tff_partial.core import lazy
from tff_partial.core.lazy import tf, tff

SETTINGS = {"two": ["CPU:1", "CPU:2"], "one": ["CPU:1"], "host": ["CPU:0"]}


# One of each kind of process is also run on one device alone.
ON_ONE = ("fedavg", "feddc", "feddse", "partial_averaging")


def main(path, *algorithms):
    lazy.load()
    cpu = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration() for _ in range(3)]
    tf.config.set_logical_device_configuration(cpu, parts)
    tf.debugging.set_log_device_placement(bool(algorithms))
    from tests.runtime.test_runtimes import ALGORITHMS

    context = runtime.create("in_process", devices=SETTINGS["two"])
    results = {name: digests(name, context) for name in algorithms or ALGORITHMS}
    with open(path, "w") as file:
        json.dump(results, file)


def digests(algorithm, context):
    """Return a digest of the weights for each setting; computations are compiled only once."""
    from tests import tiny
    from tests.runtime.test_runtimes import build

    process, found = build(algorithm), {}
    with tff.framework.get_context_stack().install(context):
        for name, devices in SETTINGS.items():
            if name == "one" and algorithm not in ON_ONE:
                continue
            context.devices[:] = [f"/device:{device}" for device in devices]
            state, _ = tiny.run(process, tiny.client_data((12, 7, 20, 5)), rounds=2, tiers=2)
            weights = tiny.flat(process.get_model_weights(state))
            found[name] = hashlib.sha256(b"".join(np.asarray(w).tobytes() for w in weights))
    return {name: digest.hexdigest() for name, digest in found.items()}


if __name__ == "__main__":
    main(*sys.argv[1:])
