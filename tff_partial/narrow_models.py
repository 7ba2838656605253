"""The same model with fewer channels: a genuine smaller one, whatever builder or user made it.

Every layer is made again from its own configuration, with as many channels as are kept of its
group. A narrow model has the variables of the full one, in the same order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from tff_partial import channel_groups, channel_rules
from tff_partial.channel_groups import Channels
from tff_partial.lazy import tf
from tff_partial.model_spec import ModelSpec


def sizes(
    channels: Channels,
    rate: float,
    rounding: str = "ceil",
    dense_only: bool = False,
    layer_rates: Optional[Mapping[str, float]] = None,
) -> list[int]:
    """How many channels of each group a client of this rate keeps, at least one.

    Args:
      channels: The model's channel groups.
      rate: In (0, 1].
      rounding: `ceil` or `floor` of rate * size.
      dense_only: Whether groups that are not of dense layers are kept whole.
      layer_rates: Layer's name -> the rate of its group, unless `rate` is 1.

    Raises:
      ValueError: If no group is of a layer in `layer_rates`.
    """
    given = dict(layer_rates or {})
    known = {name: i for i, group in enumerate(channels.groups) for name in group.layers}
    if not {*given} <= {*known}:
        raise ValueError(
            f"layers with rates must be of {sorted(known)}. Received: {sorted({*given} - {*known})}"
        )
    rates = [1.0 if dense_only and not group.dense else rate for group in channels.groups]
    for name, layer_rate in given.items():
        rates[known[name]] = layer_rate if rate < 1 else 1.0
    whole = math.ceil if rounding == "ceil" else math.floor
    # 0.55 * 100 is 55.00000000000001 in floating point.
    return [max(1, whole(round(r * g.size, 9))) for r, g in zip(rates, channels.groups)]


def create(spec: ModelSpec, kept: Sequence[int], scaler: Optional[float] = None) -> ModelSpec:
    """The model with so many channels in each group; its initial weights are all 0.

    Args:
      spec: The full model.
      kept: Number of channels that are kept of each group.
      scaler: If given, activations are divided by it in training (HeteroFL's scaler): what goes
        into a normalisation, or in a model without any, what comes out of a convolution.
    """
    channels = channel_groups.analyse(spec)
    builder = _Builder(channels, kept, scaler if scaler != 1 else None)
    return dataclasses.replace(spec, create_keras=builder.create_keras, cuts={})


class _Builder:
    """Makes layers again, narrower."""

    def __init__(self, channels: Channels, kept: Sequence[int], scaler: Optional[float]) -> None:
        self._channels, self._kept, self._scaler = channels, list(kept), scaler
        layers = channel_groups.layers_of(channels.template.blocks)
        self._outputs = {id(layers[i]): axis for i, axis in channels.outputs.items()}
        normalized = any(channel_rules.is_normalization(layer) for layer in layers)
        kind = channel_rules.is_normalization if normalized else channel_rules.is_convolution
        self._is_scaled, self._before = kind, normalized

    def create_keras(self) -> Any:
        blocks = [self._narrow(block) for block in self._channels.template.blocks]
        return tf.keras.Sequential(blocks)

    def _narrow(self, layer: Any) -> Any:
        if isinstance(layer, tf.keras.layers.InputLayer):
            return tf.keras.layers.InputLayer(self._input_shape(layer), name=layer.name)
        if isinstance(layer, tf.keras.Sequential):
            inner = [self._narrow(x) for x in layer.layers]
            return type(layer)([tf.keras.Input(self._input_shape(layer)), *inner], name=layer.name)
        if isinstance(layer, tf.keras.Model):
            inputs = tf.keras.Input(self._input_shape(layer))
            return tf.keras.models.clone_model(layer, inputs, self._narrow)
        if channel_rules.rule_of(layer) is None:
            raise channel_rules.error(layer, "it cannot be made again with fewer channels")
        return self._leaf(layer)

    def _input_shape(self, layer: Any) -> Any:
        shape, axis = self._channels.inputs[id(layer)]
        return shape if axis is None else (*shape[:-1], axis.repeat * self._kept[axis.group])

    def _leaf(self, layer: Any) -> Any:
        made = type(layer).from_config(self._config(layer))
        if self._scaler is None or not self._is_scaled(layer):
            return made
        return _scaled_class()(made, self._scaler, self._before, name=layer.name)

    def _config(self, layer: Any) -> dict[str, Any]:
        config, axis = layer.get_config(), self._outputs.get(id(layer))
        _initialize_with_zeros(config)
        if axis is None:
            return config
        kept = self._kept[axis.group]
        for name in ("filters", "units", "output_dim"):
            if name in config:
                config[name] = kept
        if isinstance(layer, tf.keras.layers.GroupNormalization):
            config["groups"] = _groups(config["groups"], kept)
        if isinstance(layer, tf.keras.layers.Bidirectional):
            for name in ("layer", "backward_layer"):
                if name in config:
                    config[name]["config"]["units"] = kept
        return config


def _initialize_with_zeros(config: dict[str, Any]) -> None:
    """Weights are always assigned, and a graph may have ten such models."""
    for name, value in config.items():
        if name.endswith("_initializer"):
            config[name] = "zeros"
        if name in ("layer", "backward_layer") and value is not None:
            _initialize_with_zeros(value["config"])


def _groups(most: int, channels: int) -> int:
    """The largest number of groups up to `most` with two channels each at least."""
    limit = max(1, min(most, channels // 2))
    return next(size for size in range(limit, 0, -1) if channels % size == 0)


def _scaled_class() -> Any:
    """The class of layers with a scaler, made late as it is a Keras layer."""

    class Scaled(tf.keras.layers.Wrapper):
        def __init__(self, layer: Any, rate: float, before: bool, **kwargs: Any) -> None:
            super().__init__(layer, **kwargs)
            self._rate, self._before = rate, before

        def call(self, inputs: Any, training: Any = None) -> Any:
            rate = self._rate if training else 1.0
            if self._before:
                return self.layer(inputs / rate, training=training)
            return self.layer(inputs) / rate

    return Scaled
