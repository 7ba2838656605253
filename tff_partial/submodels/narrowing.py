"""The same model with fewer channels: a genuine smaller one, whatever builder or user made it.

Every layer is made again from its own configuration, with as many channels as are kept of its
group. A narrow model has the variables of the full one, in the same order.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Callable, Optional, Union

import numpy as np

from tff_partial.core.lazy import tf
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Array, KerasModel, Layer, LayerConfig, Structure, Tensor
from tff_partial.submodels import containers, layer_rules
from tff_partial.submodels import groups as channel_groups
from tff_partial.submodels.groups import Channels
from tff_partial.submodels.labels import Shape
from tff_partial.submodels.layer_rules import Kind

Scaler = Union[float, Array]
"""What all channels are divided by, or each of them."""


def rates(
    channels: Channels,
    rate: float,
    dense_only: bool = False,
    layer_rates: Optional[Mapping[str, float]] = None,
) -> list[float]:
    """Return the rate of each group for a client of this rate.

    Args:
      channels: The model's channel groups.
      rate: Share of the channels, in (0, 1].
      dense_only: Whether groups that are not of dense layers are kept whole.
      layer_rates: Name of a layer, or of a block -> the rate of its groups, unless `rate` is 1.

    Raises:
      ValueError: If no group is of a layer or block in `layer_rates`.
    """
    given, known = dict(layer_rates or {}), _groups_of(channels)
    unknown = sorted({*given} - {*known})
    if unknown:
        raise ValueError(f"layers with rates must be of {sorted(known)}. Received: {unknown}")
    of_groups = [1.0 if dense_only and not group.dense else rate for group in channels.groups]
    for name, layer_rate in given.items():
        for group in known[name]:
            of_groups[group] = layer_rate if rate < 1 else 1.0
    return of_groups


def _groups_of(channels: Channels) -> dict[str, set[int]]:
    """Return the name of a layer, or of a block -> the groups that it makes."""
    known = {name: {i} for i, group in enumerate(channels.groups) for name in group.layers}
    for block in channels.template.blocks:
        layers = [x.name for x in channel_groups.layers_of([block]) if x.name in known]
        if layers:
            known.setdefault(block.name, set[int]().union(*(known[name] for name in layers)))
    return known


def sizes(channels: Channels, rates: Sequence[float], rounding: str = "ceil") -> list[int]:
    """Return the channels to keep of each group: `ceil` or `floor` of its rate, at least one."""
    whole = math.ceil if rounding == "ceil" else math.floor
    # 0.55 * 100 is 55.00000000000001 in floating point.
    return [max(1, whole(round(r * g.size, 9))) for r, g in zip(rates, channels.groups)]


def create(spec: ModelSpec, kept: Sequence[int], scalers: Sequence[float] = ()) -> ModelSpec:
    """Return the model with so many channels in each group; its initial weights are all 0.

    Activations of each group are divided by its scaler in training, as in HeteroFL: what goes into
    a normalisation, or in a model without any, what comes out of a convolution.
    """
    channels = channel_groups.analyse(spec)
    builder = _Builder(channels, kept, scalers or [1.0] * len(kept))
    return dataclasses.replace(spec, create_keras=builder.create_keras, cuts={}, checked=True)


def create_padded(spec: ModelSpec, kept: Sequence[int]) -> ModelSpec:
    """Return the model with layers that make so many channels and receive all, 0 where not made.

    It is what a mask on the outputs of layers leaves, for counting what that costs: which channels
    are kept makes no difference to it. A recurrent layer receives its own outputs narrow.
    """
    channels = channel_groups.analyse(spec)
    builder = _PaddedBuilder(channels, kept, [1.0] * len(kept))
    return dataclasses.replace(spec, create_keras=builder.create_keras, cuts={}, checked=True)


class _Builder:
    """Makes layers again, narrower."""

    def __init__(self, channels: Channels, kept: Sequence[int], scalers: Sequence[float]) -> None:
        self._channels, self._kept, self._scalers = channels, list(kept), scalers
        layers = channel_groups.layers_of(channels.template.blocks)
        normalized = any(layer_rules.is_normalization(layer) for layer in layers)
        kind = layer_rules.is_normalization if normalized else layer_rules.is_convolution
        self._is_scaled, self._before = kind, normalized
        self._made: dict[int, Layer] = {}

    def create_keras(self) -> KerasModel:
        """Return the narrow model."""
        self._made = {}
        blocks = [self._narrow(block) for block in self._channels.template.blocks]
        return tf.keras.Sequential(blocks)

    def _narrow(self, layer: Layer) -> Layer:
        """Return the narrow copy of a layer; one that is used again is made once."""
        if id(layer) not in self._made:
            self._made[id(layer)] = self._copy(layer)
        return self._made[id(layer)]

    def _copy(self, layer: Layer) -> Layer:
        if layer_rules.is_container(layer):
            return containers.copy(layer, self._narrow, self._inputs(layer), self._output)
        return self._leaf(layer)

    def _inputs(self, layer: Layer) -> list[Shape]:
        """Return the shapes of a layer's inputs."""
        return [
            tuple(size if axis is None else axis.kept(self._kept) for size, axis in zip(*each))
            for each in self._channels.inputs[id(layer)]
        ]

    def _output(self, layer: Layer) -> list[Optional[int]]:
        """Return the sizes of an output's channel axes; None for those that are always kept."""
        axes = self._channels.outputs.get(id(layer), ())
        return [None if axis is None else axis.kept(self._kept) for axis in axes]

    def _leaf(self, layer: Layer) -> Layer:
        kind = layer_rules.kind_of(layer)
        if kind is None:
            return containers.free_copy(layer)
        config = layer.get_config()
        _prepare(config)
        for field, axis in self._channels.resized.get(id(layer), ()):
            sizes = axis.size, axis.kept(self._kept)
            new = functools.partial(_new_size, kind, sizes)
            config = _replaced(config, field.split("/"), new)
        made = kind.create(type(layer), config)
        scaler = self._scaler(layer)
        return _scaled_class()(made, scaler, self._before, name=layer.name) if scaler else made

    def _scaler(self, layer: Layer) -> Optional[Scaler]:
        """Return what a layer's channels are divided by, if they are."""
        axis = self._channels.outputs.get(id(layer), (None,))[-1]
        if axis is None or not axis.repeats or not self._is_scaled(layer):
            return None
        rates = [1.0 if g < 0 else self._scalers[g] for g in axis.first(self._kept).group.tolist()]
        if {*rates} == {1.0}:
            return None
        return rates[0] if len({*rates}) == 1 else np.array(rates, np.float32)


def _new_size(kind: Kind, sizes: tuple[int, int], value: int) -> int:
    return kind.resized(value, *sizes)


def _replaced(config: Structure, way: Sequence[str], new: Callable[[int], int]) -> Structure:
    """Return a configuration with another value at the end of the way, if there is such a place."""
    if not way or config is None:
        return config and new(config)
    if isinstance(config, dict):
        inner = {way[0]: _replaced(config.get(way[0]), way[1:], new)}
        return {**config, **inner} if way[0] in config else config
    at = int(way[0])
    return [*config[:at], _replaced(config[at], way[1:], new), *config[at + 1 :]]


class _PaddedBuilder(_Builder):
    """Makes layers again that make fewer channels and receive as many as before."""

    def _leaf(self, layer: Layer) -> Layer:
        made, ((_, axes), *_) = super()._leaf(layer), self._channels.inputs[id(layer)]
        if not axes or axes[-1] is None or id(layer) not in self._channels.makers:
            return made
        missing = axes[-1].size - axes[-1].kept(self._kept)
        return _padded_class()(made, missing, name=layer.name)


def _prepare(config: LayerConfig) -> None:
    """Replace the initialisers and leave the type to the policy under which layers are made.

    Weights are always assigned, and a graph may have ten models.
    """
    if config.get("dtype") == "float32":
        del config["dtype"]
    for name, value in config.items():
        if name.endswith("_initializer"):
            config[name] = "zeros"
        if name in ("layer", "backward_layer") and value is not None:
            _prepare(value["config"])


def _scaled_class() -> type:
    """Return the class of layers with a scaler, made late as it is a Keras layer."""

    class Scaled(tf.keras.layers.Wrapper):
        def __init__(self, layer: Layer, rate: Scaler, before: bool, **kwargs: str) -> None:
            super().__init__(layer, **kwargs)
            self._rate, self._before = rate, before

        def call(self, inputs: Tensor, training: Optional[bool] = None) -> Tensor:
            rate = self._rate if training else 1.0
            if self._before:
                return self.layer(inputs / rate, training=training)
            return self.layer(inputs) / rate

    return Scaled


def _padded_class() -> type:
    """Return the class of layers whose input is filled up with channels of zeros."""

    class Padded(tf.keras.layers.Wrapper):
        def __init__(self, layer: Layer, missing: int, **kwargs: str) -> None:
            super().__init__(layer, **kwargs)
            self._missing = missing

        def build(self, input_shape: Shape) -> None:
            self.built = True  # the layer is built by its first call, with the padded input

        def call(self, inputs: Tensor) -> Tensor:
            others = [[0, 0]] * (len(inputs.shape) - 1)
            return self.layer(tf.pad(inputs, [*others, [0, self._missing]]))

    return Padded
