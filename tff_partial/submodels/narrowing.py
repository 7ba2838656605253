"""The same model with fewer channels: a genuine smaller one, whatever builder or user made it.

Every layer is made again from its own configuration, with as many channels as are kept of its
group. A narrow model has the variables of the full one, in the same order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Optional

from tff_partial.core.lazy import tf
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import KerasModel, Layer, LayerConfig, Tensor
from tff_partial.submodels import groups as channel_groups
from tff_partial.submodels import layer_rules
from tff_partial.submodels.groups import Channels
from tff_partial.submodels.layer_rules import Shape


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
        self._outputs = {id(layers[i]): axis for i, axis in channels.outputs.items()}
        normalized = any(layer_rules.is_normalization(layer) for layer in layers)
        kind = layer_rules.is_normalization if normalized else layer_rules.is_convolution
        self._is_scaled, self._before = kind, normalized

    def create_keras(self) -> KerasModel:
        """Return the narrow model."""
        blocks = [self._narrow(block) for block in self._channels.template.blocks]
        return tf.keras.Sequential(blocks)

    def _narrow(self, layer: Layer) -> Layer:
        if isinstance(layer, tf.keras.layers.InputLayer):
            return tf.keras.layers.InputLayer(self._input_shape(layer), name=layer.name)
        if isinstance(layer, tf.keras.Sequential):
            inner = [self._narrow(x) for x in layer.layers]
            return type(layer)([tf.keras.Input(self._input_shape(layer)), *inner], name=layer.name)
        if isinstance(layer, tf.keras.Model):
            inputs = tf.keras.Input(self._input_shape(layer))
            return tf.keras.models.clone_model(layer, inputs, self._narrow)
        if layer_rules.rule_of(layer) is None:
            raise layer_rules.error(layer, "it cannot be made again with fewer channels")
        return self._leaf(layer)

    def _input_shape(self, layer: Layer) -> Shape:
        shape, axis = self._channels.inputs[id(layer)]
        return shape if axis is None else (*shape[:-1], axis.repeat * self._kept[axis.group])

    def _leaf(self, layer: Layer) -> Layer:
        made = type(layer).from_config(self._config(layer))
        axis = self._outputs.get(id(layer))
        if axis is None or self._scalers[axis.group] == 1 or not self._is_scaled(layer):
            return made
        return _scaled_class()(made, self._scalers[axis.group], self._before, name=layer.name)

    def _config(self, layer: Layer) -> LayerConfig:
        config, axis = layer.get_config(), self._outputs.get(id(layer))
        _prepare(config)
        if axis is None:
            return config
        kept = self._kept[axis.group]
        for name in ("filters", "units", "output_dim"):
            if name in config:
                config[name] = kept
        if "target_shape" in config:
            *others, last = config["target_shape"]
            config["target_shape"] = (*others, last if last < 0 else axis.repeat * kept)
        if isinstance(layer, tf.keras.layers.GroupNormalization):
            size = self._channels.groups[axis.group].size
            config["groups"] = _groups(config["groups"], axis.repeat * size, axis.repeat * kept)
        if isinstance(layer, tf.keras.layers.Bidirectional):
            for name in ("layer", "backward_layer"):
                if name in config:
                    config[name]["config"]["units"] = kept
        return config


class _PaddedBuilder(_Builder):
    """Makes layers again that make fewer channels and receive as many as before."""

    def _leaf(self, layer: Layer) -> Layer:
        made, (_, axis) = super()._leaf(layer), self._channels.inputs[id(layer)]
        if axis is None or layer_rules.rule_of(layer) not in layer_rules.MAKERS:
            return made
        missing = self._channels.groups[axis.group].size - self._kept[axis.group]
        return _padded_class()(made, axis.repeat * missing, name=layer.name)


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


def _groups(groups: int, channels: int, kept: int) -> int:
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


def _scaled_class() -> type:
    """Return the class of layers with a scaler, made late as it is a Keras layer."""

    class Scaled(tf.keras.layers.Wrapper):
        def __init__(self, layer: Layer, rate: float, before: bool, **kwargs: str) -> None:
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
