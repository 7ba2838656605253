"""What a call of a layer costs, by kind: the rules that the table of layer kinds names.

A rule takes (call, the call that follows or None) and returns what it adds to the fields of its
block's cost (`costs.blocks`, which has the formulas).
"""

from __future__ import annotations

import math
from typing import Callable, NamedTuple, Optional

from tff_partial.core.lazy import tf
from tff_partial.core.types import Layer


class Call(NamedTuple):
    """One use of a layer, with the shapes for a batch of one example."""

    rule: CostRule
    layer: Layer
    inputs: tf.TensorShape
    outputs: tf.TensorShape


CostRule = Callable[[Call, Optional[Call]], dict[str, int]]


def dense(call: Call, following: Optional[Call]) -> dict[str, int]:
    n_prev, n = call.layer.kernel.shape
    positions = _size(call, call.outputs) // n
    error = 2 * n
    if following is not None and isinstance(following.layer, tf.keras.layers.Dense):
        error = n + n * following.layer.units
    return {
        "activations": positions * n if n > 1 else 0,
        "forward": positions * (n * n_prev + n),
        "error": positions * error,
        "backward": positions * (error + n * n_prev),
        "update": n * n_prev,
    }


def convolution(call: Call, _: Optional[Call]) -> dict[str, int]:
    kernels = sum(w.shape.num_elements() for w in call.layer.weights if len(w.shape) > 1)
    size = _size(call, call.outputs)
    channels = call.outputs[1 if call.layer.data_format == "channels_first" else -1]
    return {"activations": size, **_twice_backward(kernels * size // channels)}


def recurrent(values: int) -> CostRule:
    """Return the rule of a layer that keeps so many numbers for each unit and step."""

    def rule(call: Call, _: Optional[Call]) -> dict[str, int]:
        cell = call.layer.cell
        inputs, gates = cell.kernel.shape
        steps = _size(call, call.inputs) // inputs
        step = gates * (inputs + cell.units) + gates
        return {
            "activations": steps * cell.units * values,
            "first_half": 0 if call.layer.go_backwards else steps // 2 * step,
            **_twice_backward(steps * step),
        }

    return rule


def embedding(call: Call, _: Optional[Call]) -> dict[str, int]:
    return {"backward": _size(call, call.outputs)}


def attention(call: Call, _: Optional[Call]) -> dict[str, int]:
    """Count the four projections and, for each head, scores and their sum of values."""
    layer, out = call.layer, call.layer._output_dense.kernel.shape
    heads, key_dim = layer._query_dense.kernel.shape[1:]
    queries = _size(call, call.inputs) // call.inputs[-1]
    keys = math.prod(layer._key_shape[1:-1])
    positions = {"query": queries, "key": keys, "value": keys, "output": queries}
    kernels = {name: getattr(layer, f"_{name}_dense").kernel.shape for name in positions}
    projections = sum(positions[name] * math.prod(shape) for name, shape in kernels.items())
    scores = heads * queries * keys
    projected = heads * (key_dim * (queries + keys) + out[1] * keys) + queries * out[-1]
    return {
        "activations": projected + scores,
        **_twice_backward(projections + scores * (key_dim + out[1])),
    }


def _twice_backward(forward: int) -> dict[str, int]:
    return {"forward": forward, "error": forward, "backward": 2 * forward}


def _size(call: Call, shape: tf.TensorShape) -> int:
    if shape.num_elements() is None:
        raise ValueError(
            "shapes must be known before a layer runs for its costs to be counted. "
            f"Received: layer={call.layer.name!r}, shape={shape}"
        )
    return shape.num_elements()
