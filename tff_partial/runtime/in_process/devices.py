"""Where graphs run: on a GPU if TensorFlow sees one; data sets and strings on the CPU."""

from collections.abc import Mapping, Sequence
from typing import Optional

import tensorflow as tf

from tff_partial.runtime.in_process.nodes import STRING, VARIANT, NodeDef, fixed_types, node_name

CPU = "/device:CPU:0"


def choose(requested: Optional[str], visible: Sequence[str]) -> str:
    """Return the requested device, by default the first visible GPU or else the CPU.

    Raises:
      ValueError: If the requested GPU is not visible.
    """
    if requested is None:
        return visible[0] if visible else CPU
    if is_gpu(requested) and requested not in visible:
        raise ValueError(
            f"device must be {CPU} or one of {list(visible)}. Received: device={requested!r}"
        )
    return requested


def is_gpu(device: str) -> bool:
    return "GPU" in device.upper()


def visible_gpus() -> list[str]:
    """Return the GPUs that TensorFlow sees; let their memory grow where that can still be set."""
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        try:
            tf.config.experimental.set_memory_growth(gpu, True)
        except (RuntimeError, ValueError):
            break  # TensorFlow has started already: its setting stays
    return [f"/device:GPU:{i}" for i in range(len(gpus))]


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
