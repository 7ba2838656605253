"""Where graphs run: on GPUs if TensorFlow sees some; data sets and strings on the CPU."""

import contextlib
from collections.abc import Mapping, Sequence

import tensorflow as tf

from tff_partial.runtime.in_process.nodes import STRING, VARIANT, NodeDef, fixed_types, node_name

CPU = "/device:CPU:0"


def choose(requested: Sequence[str] = ()) -> list[str]:
    """Return the requested devices, by default all GPUs or else the CPU, as `/device:GPU:0`.

    Raises:
      ValueError: If one is not there, or named twice.
    """
    there = [*_devices("CPU"), *_devices("GPU")]
    if not requested:
        return [device for device in there if is_gpu(device)] or [CPU]
    chosen = [f"/device:{name.upper().rpartition('DEVICE:')[2]}" for name in requested]
    if not set(chosen) <= set(there) or len(set(chosen)) < len(chosen):
        names = ", ".join(map(short, there))
        raise ValueError(
            f"devices must be of {names}, each once. Received: devices={','.join(requested)!r}"
        )
    return chosen


def short(device: str) -> str:
    """Return a device as users write it, such as GPU:0."""
    return device.rpartition("device:")[2]


def is_gpu(device: str) -> bool:
    """Return whether a device is a GPU."""
    return "GPU" in device


def _devices(kind: str) -> list[str]:
    """Return the devices of a kind, without starting TensorFlow; let the memory of GPUs grow."""
    count = 0
    for physical in tf.config.list_physical_devices(kind):
        count += len(tf.config.get_logical_device_configuration(physical) or [physical])
        if kind == "GPU":
            # Where TensorFlow has started, or the GPU is divided, its setting stays.
            with contextlib.suppress(RuntimeError, ValueError):
                tf.config.experimental.set_memory_growth(physical, True)
    return [f"/device:{kind}:{i}" for i in range(count)]


def place(nodes: Sequence[NodeDef]) -> list[str]:
    """Return a device for each node: its own, `CPU`, or "" to follow the function around it.

    Data sets, iterators, tables and strings have no kernels on a GPU, and a data set cannot be
    copied there: they, and identities of them, are pinned to the CPU. A loop or a function call is
    not pinned even if strings or data sets pass through it: TensorFlow places the ops inside of it
    one by one.
    """
    by_name = {node.name: node for node in nodes}
    return [node.device or (CPU if _on_cpu(node, by_name) else "") for node in nodes]


def _on_cpu(node: NodeDef, nodes: Mapping[str, NodeDef]) -> bool:
    attrs = node.attr.values()
    calls_function = any(attr.HasField("func") or attr.list.func for attr in attrs)
    if calls_function and "Dataset" not in node.op:
        return False
    if any(part in node.op for part in ("Dataset", "Iterator", "Table")):
        return True
    if node.op in ("Identity", "IdentityN") and node.input:
        source = nodes.get(node_name(node.input[0]))
        return source is not None and _on_cpu(source, nodes)
    types = {attr.type for attr in attrs}.union(*(attr.list.type for attr in attrs))
    if node.op == "Placeholder" and VARIANT in types:
        return True
    return STRING in types.union(*fixed_types(node.op))
