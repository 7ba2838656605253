"""Where graphs run: on a GPU if TensorFlow sees one, data sets and strings on the CPU."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import tensorflow as tf
from tensorflow.python.framework import op_def_registry

CPU = "/device:CPU:0"

_STRING = 7  # DT_STRING
_VARIANT = 21  # DT_VARIANT


def choose(requested: Optional[str], visible: Sequence[str]) -> str:
    """The device on which functions run.

    Args:
      requested: a device such as `/device:GPU:1`, or `None`.
      visible: the names of the GPUs that TensorFlow sees, such as `/device:GPU:0`.

    Returns:
      The requested device, otherwise the first GPU, otherwise the CPU.

    Raises:
      ValueError: a GPU is requested that is not there.
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
    """The GPUs that TensorFlow sees; their memory grows with need, where that can still be set."""
    found = tf.config.list_physical_devices("GPU")
    for gpu in found:
        try:
            tf.config.experimental.set_memory_growth(gpu, True)
        except (RuntimeError, ValueError):
            break  # TensorFlow has started already: its setting stays
    return [f"/device:GPU:{i}" for i in range(len(found))]


def place(nodes: Sequence[Any]) -> list[str]:
    """The device of each node of a graph.

    Data sets, iterators, tables and strings have no kernels on a GPU, and a data set cannot be
    copied there: they are pinned to the CPU. So is an identity of a data set. A loop or a function
    call follows its function even if strings or data sets pass through it, because TensorFlow
    places the ops inside of it one by one.

    Args:
      nodes: the graph's nodes, each after those that it reads (as in a GraphDef that TensorFlow
        wrote) or not.

    Returns:
      A device for each node: that which the node names already, `CPU`, or an empty string to follow
      the function.
    """
    by_name = {node.name: node for node in nodes}
    return [node.device or (CPU if _on_cpu(node, by_name) else "") for node in nodes]


def _on_cpu(node: Any, nodes: Mapping[str, Any]) -> bool:
    if (
        any(attr.HasField("func") or attr.list.func for attr in node.attr.values())
        and "Dataset" not in node.op
    ):
        return False
    if any(part in node.op for part in ("Dataset", "Iterator", "Table")):
        return True
    if node.op in ("Identity", "IdentityN") and node.input:
        source = nodes.get(node.input[0].lstrip("^").split(":")[0])
        return source is not None and _on_cpu(source, nodes)
    types = {attr.type for attr in node.attr.values()}
    types.update(t for attr in node.attr.values() for t in attr.list.type)
    return (
        _takes_strings(node.op)
        or _STRING in types
        or (node.op == "Placeholder" and _VARIANT in types)
    )


@functools.cache
def _takes_strings(op: str) -> bool:
    """Whether strings are among an op's arguments or results, whatever its attributes."""
    definition = op_def_registry.get(op)
    if definition is None:
        return False
    return any(arg.type == _STRING for arg in (*definition.input_arg, *definition.output_arg))
