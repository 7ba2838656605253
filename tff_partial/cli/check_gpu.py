"""Checks that training works on a GPU, and prints a report to paste into an issue.

python -m tff_partial.check_gpu

It shows what TensorFlow sees, compares a round on the CPU and on the GPU, times rounds in each
precision, and says whether LSTMs run in cuDNN's kernels. It takes some minutes.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

import numpy as np

from tff_partial import runtime
from tff_partial.algorithms import fedavg
from tff_partial.cli import command_line
from tff_partial.core import checks, precision
from tff_partial.core.lazy import tf, tff
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Array, KerasModel, LearningProcess, Structure
from tff_partial.experiments.bundled import models
from tff_partial.experiments.simulation import simulate

# Largest difference of an update on two devices, of its largest element.
TOLERANCE = 1e-3
CLIENTS, BATCH, WORDS = 2, 32, 32
_PACKAGES = ("tff_partial", "tensorflow", "tensorflow-federated", "keras", "numpy")


class Check(NamedTuple):
    """A line of the report; `passed` is None for a figure."""

    what: str
    result: str
    passed: Optional[bool] = None


def main(arguments: Sequence[str]) -> int:
    """Print the report; return 0 if all is well, else 1."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    parser = command_line.Parser("check_gpu", __doc__)
    add = parser.add_argument
    add("--device", default="GPU:0", help="The device to check.")
    add("--model", default="resnet20", help="Model of images that is trained.")
    add("--steps", type=int, default=10, help="Local steps of a client.")
    try:
        flags = parser.read(arguments)
        checks.one_of("model", flags.model, models.NAMES)
        if flags.steps < 1:
            raise ValueError(f"steps must be positive. Received: steps={flags.steps}")
    except ValueError as error:
        return command_line.fail(error, code=2)
    print(f"### tff_partial check-gpu\n\n{_describe()}\n\n| check | result | |\n|---|---|---|")
    try:
        runtime.configure("in_process", [flags.device])
    except ValueError as error:
        _show(Check("device", f"{error}; docs/install.md says what to do", False))
        return 1
    passed = [_show(check) for check in run_checks(flags.device, flags.model, flags.steps)]
    return 0 if all(passed) else 1


def run_checks(device: str, model: str, steps: int) -> Iterator[Check]:
    """Yield the lines of the report as they are known."""
    tf.config.experimental.enable_tensor_float_32_execution(False)  # for the comparison alone
    yield _compare(device, model, steps)
    tf.config.experimental.enable_tensor_float_32_execution(True)
    yield Check(f"{model}, seconds a round on CPU:0", _seconds("CPU:0", model, steps))
    for name in precision.PRECISIONS:
        what = f"{model}, seconds a round on {device}, {name}"
        yield Check(what, _seconds(device, model, steps, name))
    yield _lstm(device)
    if "GPU" in device.upper():
        peak = tf.config.experimental.get_memory_info(device)["peak"] / 2**20
        yield Check(f"peak memory of {device}", f"{peak:.0f} MiB")


def _describe() -> str:
    """Return the machine as a list: devices, versions, what TensorFlow was built with."""
    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name") for gpu in gpus]
    built = tf.sysconfig.get_build_info()
    versions = [f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES]
    lines = [
        f"GPUs that TensorFlow sees: {', '.join(map(str, names)) or 'none'}",
        f"TensorFlow's CUDA: {built.get('cuda_version', 'none')}, "
        f"cuDNN: {built.get('cudnn_version', 'none')}",
        f"CUDA_VISIBLE_DEVICES: {os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}",
        f"{', '.join(versions)}, Python {platform.python_version()}, {platform.platform()}",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _show(check: Check) -> bool:
    """Print a line of the report; return whether nothing is wrong."""
    verdict = {None: "", True: "ok", False: "**FAILED**"}[check.passed]
    print(f"| {check.what} | {check.result} | {verdict} |", flush=True)
    return check.passed is not False


def _compare(device: str, model: str, steps: int) -> Check:
    """Compare the update of a round on the CPU with that on the device."""
    weights = []
    for name in ("CPU:0", device):
        with _on(name):
            process, clients = _images(model, steps)
            initial = _flat(process, process.initialize())
            (result,) = simulate(process, clients, rounds=1)
            weights.append(_flat(process, result.state) - initial)
    worst = np.abs(weights[0] - weights[1]).max() / np.abs(weights[0]).max()
    what = f"{model}: a round on {device} against CPU:0, largest difference of the update"
    return Check(what, f"{worst:.1e} (at most {TOLERANCE:.0e})", bool(worst <= TOLERANCE))


def _seconds(device: str, model: str, steps: int, of: str = "float32") -> str:
    """Return the median time of three rounds after a first one."""
    times = []
    with _on(device):
        process, clients = _images(model, steps, of)
        started = time.perf_counter()
        for _ in simulate(process, clients, rounds=4):
            times.append(time.perf_counter() - started)
            started = time.perf_counter()
    return f"{statistics.median(times[1:]):.2f} (first: {times[0]:.1f})"


def _lstm(device: str) -> Check:
    """Say whether a client's LSTM runs in cuDNN's kernel, by the graphs that were run."""
    from tensorflow.python.eager import context

    def create() -> KerasModel:
        layers = tf.keras.layers
        recurrent = layers.Bidirectional(layers.LSTM(8), name="lstm")
        return tf.keras.Sequential([layers.Embedding(50, 8), recurrent, layers.Dense(2)])

    rng = np.random.default_rng(0)
    words = rng.integers(0, 50, (BATCH, WORDS)).astype(np.int32)
    spec = ModelSpec(create, (WORDS,), "int32")
    with _on(device):
        process = fedavg.build(spec, fedavg.Params(LocalTraining(steps=2)))
        context.context().enable_graph_collection()
        list(simulate(process, [(words, words[:, 0] % 2)], rounds=1))
        graphs = context.context().export_run_metadata().partition_graphs
        context.context().disable_graph_collection()
    ops = {node.op for g in graphs for node in g.node}
    ops |= {n.op for g in graphs for f in g.library.function for n in f.node_def}
    used = any(op.startswith("CudnnRNN") for op in ops)
    needed = "GPU" in device.upper()
    return Check("LSTM in cuDNN's kernel", "yes" if used else "no", used or not needed)


@contextlib.contextmanager
def _on(device: str) -> Iterator[None]:
    """Make computations run on a device in this block."""
    created = contextlib.closing(runtime.create("in_process", devices=[device]))
    with created as context, tff.framework.get_context_stack().install(context):
        yield


def _images(
    model: str, steps: int, of: str = "float32"
) -> tuple[LearningProcess, list[tuple[Array, Array]]]:
    """Return FedAvg's process on random images, and its clients."""
    rng = np.random.default_rng(0)
    architecture = models.ARCHITECTURES[model]
    shape, classes = architecture.input_shape, architecture.num_classes
    spec = ModelSpec(lambda: models.create(model, shape, classes), shape)
    local = LocalTraining(
        steps=steps, batch_size=BATCH, learning_rate=0.01, momentum=0.9, precision=of
    )
    examples = (rng.normal(size=(CLIENTS, 2 * BATCH, *shape))).astype(np.float32)
    clients = [(x, rng.integers(0, classes, len(x)).astype(np.int32)) for x in examples]
    return fedavg.build(spec, fedavg.Params(local)), clients


def _flat(process: LearningProcess, state: Structure) -> Array:
    """Return all trainable weights in a row."""
    weights = process.get_model_weights(state).trainable
    return np.concatenate([np.ravel(w) for w in weights])
