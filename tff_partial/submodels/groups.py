"""Channel groups: which axes of which variables belong to the same neurons, from the model itself.

The outputs of a convolution, dense or recurrent layer make a group, and so do the heads of an
attention; an addition joins the groups of its inputs, a concatenation puts them one after the
other; normalisation, activation and pooling pass them on; a flatten maps a channel to several rows.
Every layer is watched in one forward pass (`analysis`). The channels of the model's input and its
logits are in no group: they are always kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

from tff_partial.core.lazy import tf
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.types import Layer
from tff_partial.submodels import analysis as analysis_module
from tff_partial.submodels import layer_rules
from tff_partial.submodels.analysis import Analysis
from tff_partial.submodels.labels import Shape
from tff_partial.submodels.neurons import Axis, Grouping, Labels

Axes = tuple[Optional[Axis], ...]


@dataclasses.dataclass(frozen=True)
class Group:
    """Channels that are kept or left out together.

    Attributes:
      size: Number of channels.
      layers: Names of the layers that make them.
      dense: Whether all these are dense layers.
    """

    size: int
    layers: tuple[str, ...]
    dense: bool


class Resized(NamedTuple):
    """A field of a layer's configuration, and the axis whose length it is."""

    field: str
    axis: Axis


@dataclasses.dataclass(frozen=True)
class Channels:
    """The channel groups of a model.

    Attributes:
      groups: The groups, in the order in which the forward pass meets them.
      axes: For each trainable, then each non-trainable variable, what each of its axes is of, or
        None if it is always kept; the axis of the logits is of the group `CLASSES`.
      made: The same, but only the axis whose channels the layer makes; None for those it receives.
      makers: ids of the layers of `template` that make channels.
      outputs: id of a layer of `template` -> the axes of that layer's output.
      inputs: id of a layer of `template` -> shape without the batch, and axes, of each input.
      resized: id of a layer of `template` -> what a narrow copy of it has less of.
      classes: Number of logits.
      scored: Position in `layers_of` of a layer that says how active groups are -> the axis that
        it says it of.
      template: A model of which only the structure counts.
    """

    groups: tuple[Group, ...]
    axes: tuple[Axes, ...]
    made: tuple[Axes, ...]
    makers: frozenset[int]
    outputs: dict[int, Axes]
    inputs: dict[int, list[tuple[Shape, Axes]]]
    resized: dict[int, list[Resized]]
    classes: int
    scored: dict[int, Axis]
    template: Model

    @property
    def sizes(self) -> list[int]:
        return [group.size for group in self.groups]


def analyse(spec: ModelSpec) -> Channels:
    """Return the channel groups of a model, derived once for a `ModelSpec`.

    Raises:
      ValueError: If a layer cannot be sliced; it is named.
    """
    if spec.has_frozen:
        raise ValueError(
            "sub-models must be of a model without frozen layers: nobody sends the channels that a "
            "client keeps of these. Received: layers with trainable=False"
        )
    cache = vars(spec)
    if "_channels" not in cache:
        with tf.Graph().as_default():
            model = spec.instantiate()
            cache["_channels"] = _channels(model, Analysis(model))
    return cache["_channels"]


def resized(channels: Channels, sizes: Sequence[int]) -> Channels:
    """Return the groups of a model that has the first so many channels of each."""
    groups = [dataclasses.replace(g, size=k) for g, k in zip(channels.groups, sizes)]
    distinct = {axis: axis.first(sizes) for axes in channels.axes for axis in axes if axis}
    axes = [tuple(axis and distinct[axis] for axis in axes) for axes in channels.axes]
    return dataclasses.replace(channels, groups=tuple(groups), axes=tuple(axes))


def made(channels: Channels) -> Channels:
    """Return the groups with variables that are sliced only along the channels they make."""
    return dataclasses.replace(channels, axes=channels.made)


def layers_of(blocks: Sequence[Layer]) -> list[Layer]:
    """Return the layers that do the work, in the same order for every instance of a model."""
    layers: list[Layer] = []
    for layer in blocks:
        is_container = layer_rules.is_container(layer)
        layers += layers_of(layer_rules.inner(layer)) if is_container else [layer]
    return layers


def _channels(model: Model, analysis: Analysis) -> Channels:
    """Divide what the analysis has found into groups."""
    grouping = Grouping(analysis.neurons, analysis.axes(), analysis.logits[-1])

    def axes(labels: Labels) -> Axes:
        return tuple(grouping.axis(owners) for owners in labels)

    outputs = {key: axes(labels) for key, labels in analysis.outputs.items() if labels is not None}
    layers, variables = layers_of(model.blocks), model.variables
    makers = frozenset(_makers(layers, {id(layer) for layer, _ in analysis.makers}))
    of_variables = [axes(analysis.variables.get(id(v), (None,) * len(v.shape))) for v in variables]
    return Channels(
        groups=tuple(_groups(grouping, analysis)),
        axes=tuple(of_variables),
        made=tuple(
            tuple(axis if i == analysis.made.get(id(v)) else None for i, axis in enumerate(each))
            for v, each in zip(variables, of_variables)
        ),
        makers=makers,
        outputs=outputs,
        inputs={
            key: [(shape, axes(labels[1:])) for shape, labels in tensors]
            for key, tensors in analysis.inputs.items()
        },
        resized={key: _resized(grouping, fields) for key, fields in analysis.resized.items()},
        classes=analysis.classes,
        scored=_scored(layers, _observed(grouping, analysis), makers),
        template=model,
    )


def _makers(layers: Iterable[Layer], makers: set[int]) -> set[int]:
    """Return the layers that make channels themselves, or a layer within them."""
    return {id(x) for x in layers if any(id(y) in makers for y in (x, *x.submodules))}


def _groups(grouping: Grouping, analysis: Analysis) -> list[Group]:
    makers: list[list[Layer]] = [[] for _ in grouping.members]
    for layer, owners in analysis.makers:
        for number in grouping.groups_of(owners):
            makers[number].append(layer)
    return [
        Group(len(members), tuple(layer.name for layer in made_by), _all_dense(made_by))
        for members, made_by in zip(grouping.members, makers)
    ]


def _all_dense(layers: Iterable[Layer]) -> bool:
    return all(isinstance(layer, tf.keras.layers.Dense) for layer in layers)


def _observed(grouping: Grouping, analysis: Analysis) -> dict[int, Axis]:
    """Return the last axis of each layer's output; of an attention, its heads."""
    owners = {key: labels[-1] for key, labels in analysis.outputs.items() if labels}
    for layer, made in reversed(analysis.makers):
        kind = layer_rules.kind_of(layer)
        if kind and kind.activity:
            owners[id(layer)] = made
    axes = {key: grouping.axis(each) for key, each in owners.items()}
    return {key: axis for key, axis in axes.items() if axis and axis.repeats}


def _resized(grouping: Grouping, fields: Iterable[analysis_module.Resized]) -> list[Resized]:
    known = [(each.field, grouping.axis(each.axis)) for each in fields]
    return [Resized(field, axis) for field, axis in known if axis]


def _scored(
    layers: Sequence[Layer], observed: dict[int, Axis], makers: frozenset[int]
) -> dict[int, Axis]:
    """Return the activations; for a group without any, the layers that make it."""
    axes = {i: observed[id(x)] for i, x in enumerate(layers) if id(x) in observed}
    active = {i: axis for i, axis in axes.items() if layer_rules.is_activation(layers[i])}
    covered = {group for axis in active.values() for group in axis.repeats}
    making = {
        i: axis
        for i, axis in axes.items()
        if id(layers[i]) in makers and not {*axis.repeats} <= covered
    }
    return dict(sorted((active | making).items()))
