"""The table of layer kinds: what each does to channels, to a narrow copy of it, and what it costs.

A new kind of layer is one `Kind` in `_KINDS`, or a call of `register` for a layer of your own. The
rules that the table names are in `channel_rules` and `layer_costs`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Callable, Optional, Union

from tff_partial.core import normalization
from tff_partial.core.lazy import tf
from tff_partial.core.types import Layer, LayerConfig, Structure
from tff_partial.submodels import channel_rules, layer_costs, op_layers
from tff_partial.submodels.channel_rules import MoveRule, Rule
from tff_partial.submodels.layer_costs import CostRule


def _kept(value: int, full: int, kept: int) -> int:
    """Return the size of a narrow layer's axis: the number of channels that it keeps."""
    return kept


def _normalized_groups(groups: int, channels: int, kept: int) -> int:
    """Return how many groups a normalisation has that keeps so many of its channels.

    Those of the full layer if all are kept; one for each channel if it is so there; else as many
    as fit, up to those of the full layer, with two channels each at least.
    """
    if kept == channels:
        return groups
    if groups == channels:
        return kept
    limit = max(1, min(groups, kept // 2))
    return next(size for size in range(limit, 0, -1) if kept % size == 0)


def _from_config(kind: type, config: LayerConfig) -> Layer:
    return kind.from_config(config)  # type: ignore[attr-defined]


def _without_shapes(kind: type, config: LayerConfig) -> Layer:
    """Make a layer that learns the shapes of its inputs when it is called."""
    shapes = {"query_shape", "key_shape", "value_shape"}
    return kind(**{key: value for key, value in config.items() if key not in shapes})


@dataclasses.dataclass(frozen=True)
class Kind:
    """What is known about a kind of layer.

    Attributes:
      channels: What becomes of the last axis of its inputs (`channel_rules`). None if the kind is
        only counted.
      moves: The same for a layer that moves axes: it takes and returns all axes of all tensors.
      pointwise: Whether it treats what stands along other axes alone, so that these may be
        channels too.
      inputs: How many tensors it takes at most, besides masks.
      resized: (value, channels, kept channels) -> the value in the configuration of a narrow copy,
        for each field that `channels` names (`Analysis.new`, `Analysis.resize`).
      create: (class, configuration) -> the narrow copy.
      cost: What a call costs (`layer_costs`); None for nothing.
      role: `normalization`, `convolution`, `activation` or nothing.
      activity: Layer -> the inner layer whose input says how active its channels are: the axis
        before the last. None: the layer's own output does.
    """

    channels: Optional[Rule] = None
    moves: Optional[MoveRule] = None
    pointwise: bool = False
    inputs: int = 1
    resized: Callable[[int, int, int], int] = _kept
    create: Callable[[type, LayerConfig], Layer] = _from_config
    cost: Optional[CostRule] = None
    role: str = ""
    activity: Optional[Callable[[Layer], Layer]] = None


def _convolution(rule: Rule) -> Kind:
    return Kind(rule, cost=layer_costs.convolution, role="convolution")


def _recurrent(values: int) -> Kind:
    return Kind(channel_rules.recurrent, cost=layer_costs.recurrent(values))


def _by_dimension(*names: str) -> tuple[str, ...]:
    """Return the names of layers for sequences, images and volumes; `{}` is the dimension."""
    patterns = [name if "{}" in name else name + "{}" for name in names]
    return tuple(name.format(f"{dimension}D") for name in patterns for dimension in (1, 2, 3))


_MANY = 1 << 30
_dense = channel_rules.makes("units", kernel="io", bias="o")
_embedding = channel_rules.makes("output_dim", embeddings="-o")
_normalization = channel_rules.normalization
# The first that fits: some kinds are subclasses of others.
_KINDS: tuple[tuple[tuple[str, ...], Kind], ...] = (
    (_by_dimension("Conv{}Transpose"), _convolution(channel_rules.transposed)),
    (("DepthwiseConv1D", "DepthwiseConv2D"), _convolution(channel_rules.depthwise)),
    (("SeparableConv1D", "SeparableConv2D"), _convolution(channel_rules.separable)),
    (_by_dimension("Conv"), _convolution(channel_rules.convolution)),
    (("Dense",), Kind(_dense, pointwise=True, cost=layer_costs.dense)),
    (("Embedding",), Kind(_embedding, cost=layer_costs.embedding)),
    # An LSTM keeps its 4 gates before and after their activation, its cell and its output; the
    # others are counted likewise.
    (("LSTM",), _recurrent(values=10)),
    (("GRU",), _recurrent(values=7)),
    (("SimpleRNN",), _recurrent(values=2)),
    (("Bidirectional",), Kind(channel_rules.bidirectional)),
    (
        ("MultiHeadAttention",),
        Kind(
            channel_rules.attention,
            inputs=3,
            create=_without_shapes,
            cost=layer_costs.attention,
            activity=lambda layer: layer._output_dense,
        ),
    ),
    (("BatchNormalization",), Kind(_normalization, role="normalization")),
    (
        ("LayerNormalization", "UnitNormalization"),
        Kind(_normalization, pointwise=True, role="normalization"),
    ),
    (
        ("GroupNormalization",),
        Kind(channel_rules.group_normalization, resized=_normalized_groups, role="normalization"),
    ),
    (("Normalization",), Kind(channel_rules.input_statistics)),
    (("PReLU",), Kind(channel_rules.prelu, role="activation")),
    (("Softmax",), Kind(channel_rules.softmax, pointwise=True)),
    (
        ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"),
        Kind(moves=channel_rules.elementwise, inputs=_MANY),
    ),
    (("Concatenate",), Kind(moves=channel_rules.concatenate, inputs=_MANY)),
    (("Permute",), Kind(moves=channel_rules.permute)),
    (("Flatten", "Reshape"), Kind(moves=channel_rules.reshape)),
    (("RepeatVector",), Kind(moves=channel_rules.repeat)),
    (
        ("ReLU", "LeakyReLU", "ELU", "ThresholdedReLU"),
        Kind(channel_rules.same, pointwise=True, role="activation"),
    ),
    (
        ("Activation", "Rescaling", "Dropout", "AlphaDropout", "GaussianNoise", "GaussianDropout"),
        Kind(channel_rules.same, pointwise=True),
    ),
    (
        _by_dimension(
            *("MaxPooling", "AveragePooling", "GlobalMaxPooling", "GlobalAveragePooling"),
            *("ZeroPadding", "UpSampling", "Cropping", "SpatialDropout"),
        ),
        Kind(channel_rules.same),
    ),
    (("InputLayer",), Kind(channel_rules.same)),
)
_REGISTERED: dict[type, Kind] = {}
# Operations of `tf.nn` that are activations.
_ACTIVATIONS = {
    *("relu", "relu6", "elu", "selu", "leaky_relu", "gelu", "swish", "silu", "swish_impl"),
    *("sigmoid", "tanh", "softplus", "softsign"),
}


def register(layer_class: type, kind: Union[Kind, Rule]) -> None:
    """Add a layer class of your own: its `Kind`, or only what it does to channels.

    docs/extending.md has an example.
    """
    _REGISTERED[layer_class] = kind if isinstance(kind, Kind) else Kind(kind)


def kind_of(layer: Layer) -> Optional[Kind]:
    """Return what is known about a layer's kind."""
    known = (kind for names, kind in _KINDS if isinstance(layer, _classes(names)))
    return _REGISTERED.get(type(layer)) or next(known, None)


@functools.cache
def _classes(names: tuple[str, ...]) -> tuple[type, ...]:
    return tuple(getattr(tf.keras.layers, name) for name in names)


def is_normalization(layer: Layer) -> bool:
    """Return whether a layer normalises."""
    return _role(layer) == "normalization"


def is_convolution(layer: Layer) -> bool:
    """Return whether a layer is a convolution."""
    return _role(layer) == "convolution"


def is_activation(layer: Layer) -> bool:
    """Return whether a layer is an activation or ends in one."""
    if op_layers.is_op(layer):
        return op_layers.name_of(layer) in _ACTIVATIONS
    function = getattr(layer, "activation", None)
    is_linear = function is None or function is tf.keras.activations.linear
    return _role(layer) == "activation" or not is_linear


def activity_of(layer: Layer) -> Optional[Layer]:
    """Return the inner layer whose input says how active a layer's channels are, if any does."""
    kind = kind_of(layer)
    return kind.activity(layer) if kind and kind.activity else None


def _role(layer: Layer) -> str:
    kind = kind_of(layer)
    return kind.role if kind else ""


def inner(layer: Layer) -> list[Layer]:
    """Return the layers that a block or container consists of."""
    if isinstance(layer, tf.keras.Model):
        return list(layer.layers)
    return list(layer._flatten_layers(recursive=False, include_self=False))


def is_container(layer: Layer) -> bool:
    """Return whether a layer consists of others, which are followed one by one."""
    return not kind_of(layer) and bool(inner(layer))


def error(layer: Layer, why: str) -> ValueError:
    """Return the error of a layer that cannot be sliced."""
    return ValueError(
        "layers must be of kinds whose channels can be left out. "
        f"Received: layer={layer.name!r} ({type(layer).__name__}): {why}"
    )


def check(layer: Layer, kind: Kind, inputs: int, outputs: Structure) -> None:
    """Raise a ValueError unless a kind can speak for the layer, as it was called."""
    is_known = type(layer) in _REGISTERED or type(layer).call.__module__.startswith("keras.")
    if not is_known and not normalization.is_static(layer):
        raise error(layer, "its class has a `call` of its own")
    if inputs > kind.inputs or not tf.is_tensor(outputs):
        wanted = "one input" if kind.inputs == 1 else f"at most {kind.inputs} inputs"
        raise error(layer, f"it must have {wanted} and one output")
