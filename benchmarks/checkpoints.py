"""Time of a checkpoint, and the memory that it does not give back.

    python -m benchmarks.checkpoints

The state is that of ResNet20. Ours is a plain .npz file, synced to the disk; `tff.program`'s
manager, which this project used before, writes a SavedModel. Bars: a checkpoint leaves at most 0.02
MB, and ours takes no longer than TFF's.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np

from benchmarks.measure import memory_mb

WARM_UP = 10


def state() -> list[np.ndarray]:
    """Return the weights of ResNet20."""
    import models

    keras = models.create("resnet20", (32, 32, 3), 10)
    keras.build((None, 32, 32, 3))
    return [np.asarray(value) for value in keras.get_weights()]


def ours(folder: str, value: Any) -> Callable[[int], None]:
    from tff_partial.experiments import checkpoints

    os.makedirs(folder)
    store = checkpoints.Checkpoints(folder)
    return lambda done: store.save(done, value, checkpoints.NO_CLIENT_FILES)


def of_tff(folder: str, value: Any) -> Callable[[int], None]:
    """Return TFF's save as it was used before: one array, as the manager takes long for each."""
    import tensorflow_federated as tff

    manager = tff.program.FileProgramStateManager(folder, keep_total=2, keep_first=False)
    loop = asyncio.new_event_loop()
    packed = {"float32": np.concatenate([v.reshape(-1) for v in value])}
    return lambda done: loop.run_until_complete(manager.save(packed, done))


def measure(save: Callable[[int], None], count: int) -> tuple[float, float]:
    """Return (median seconds, MB that a checkpoint leaves in memory), after some to warm up."""
    times = []
    for done in range(1, WARM_UP + count + 1):
        started = time.perf_counter()
        save(done)
        times.append(time.perf_counter() - started)
        if done == WARM_UP:
            gc.collect()
            before = memory_mb("VmRSS")
    gc.collect()
    return statistics.median(times[WARM_UP:]), (memory_mb("VmRSS") - before) / count


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=500, help="Checkpoints of ours.")
    parser.add_argument("--count_tff", type=int, default=50, help="Checkpoints of TFF's manager.")
    flags = parser.parse_args(argv)
    value = state()
    with tempfile.TemporaryDirectory() as folder:
        for label, create, count in (
            ("ours", ours, flags.count),
            ("tff.program", of_tff, flags.count_tff),
        ):
            seconds, megabytes = measure(create(os.path.join(folder, label), value), count)
            figures = f"{label:12s}{1000 * seconds:9.1f} ms{megabytes:9.4f} MB left a checkpoint"
            print(f"{figures} ({count} checkpoints)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
