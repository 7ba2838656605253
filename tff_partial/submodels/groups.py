"""Channel groups: which axes of which variables belong to the same neurons, from the model itself.

The outputs of a convolution, dense or recurrent layer make a group; an addition joins the groups
of its inputs; normalisation, activation and pooling pass them on; a flatten maps a channel to
several rows. Every layer is watched in one forward pass. The channels of the model's input and its
logits are in no group: they are always kept.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Callable, Optional

from tff_partial.core import keras_compat
from tff_partial.core.lazy import tf
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.types import Layer, Structure, Tensor, Variable
from tff_partial.submodels import layer_rules
from tff_partial.submodels.layer_rules import CLASSES, Axes, Axis, Shape


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


@dataclasses.dataclass(frozen=True)
class Channels:
    """The channel groups of a model.

    Attributes:
      groups: The groups, in the order in which the forward pass meets them.
      axes: For each trainable, then each non-trainable variable, a group for each axis, or None;
        the axis of the logits is of the group `CLASSES`.
      made: The same, but only the axis whose channels the layer makes; None for those it receives.
      outputs: Position in `layers_of` -> the last axis of that layer's output.
      inputs: id of a layer of `template` -> shape of its input without the batch, and the last
        axis.
      classes: Number of logits.
      scored: Positions in `layers_of` of the layers whose output says how active a group is.
      template: A model of which only the structure counts.
    """

    groups: tuple[Group, ...]
    axes: tuple[Axes, ...]
    made: tuple[Axes, ...]
    outputs: dict[int, Axis]
    inputs: dict[int, tuple[Shape, Optional[Axis]]]
    classes: int
    scored: tuple[int, ...]
    template: Model


def analyse(spec: ModelSpec) -> Channels:
    """Return the channel groups of a model, derived once for a `ModelSpec`.

    Raises:
      ValueError: If a layer cannot be sliced; it is named.
    """
    cache = vars(spec)
    if "_channels" not in cache:
        with tf.Graph().as_default():
            cache["_channels"] = Analysis(spec.instantiate()).run()
    return cache["_channels"]


def resized(channels: Channels, sizes: Sequence[int]) -> Channels:
    """Return the groups of a model that has so many channels of each."""
    groups = [dataclasses.replace(g, size=k) for g, k in zip(channels.groups, sizes)]
    return dataclasses.replace(channels, groups=tuple(groups))


def made(channels: Channels) -> Channels:
    """Return the groups with variables that are sliced only along the channels they make."""
    return dataclasses.replace(channels, axes=channels.made)


def layers_of(blocks: Sequence[Layer]) -> list[Layer]:
    """Return the layers that do the work, in the same order for every instance of a model."""
    layers: list[Layer] = []
    for layer in blocks:
        layers += layers_of(layer_rules.inner(layer)) if _is_container(layer) else [layer]
    return layers


class Analysis:
    """One forward pass in which every layer says what becomes of the channels."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._parents: list[int] = []
        self._sizes: list[int] = []
        self._makers: dict[int, list[Layer]] = {}
        self._whole: set[int] = set()
        self._axes: dict[int, Axes] = {}
        self._made: dict[int, int] = {}
        self._tensors: dict[Structure, Optional[Axis]] = {}
        self._inputs: dict[int, tuple[Shape, Optional[Axis]]] = {}
        self._outputs: dict[int, Optional[Axis]] = {}

    def run(self) -> Channels:
        """Run the forward pass; return what the layers say."""
        model, spec = self._model, self._model.spec
        layers = layers_of(model.blocks)
        example = tf.compat.v1.placeholder(spec.input_dtype, [None, *spec.input_shape])
        x = model.preprocess(example)
        self._tensors[x.ref()] = None
        watched = [*layers, *_containers(model.blocks)]
        with keras_compat.replaced_calls(watched, self._watched):
            logits = model.forward(x, training=False)
        if logits.ref() not in self._tensors:
            raise layer_rules.error(model.blocks[-1], "its output is not that of a Keras layer")
        return self._result(layers, self._tensors[logits.ref()], logits.shape[-1])

    def _watched(self, layer: Layer) -> Callable[..., Tensor]:
        call, rule = layer.call, layer_rules.rule_of(layer)
        is_container = _is_container(layer)

        # Keras reads the signature of `call` when it decides what to pass.
        @functools.wraps(call)
        def watched(inputs: Structure, *args: Structure, **kwargs: Structure) -> Tensor:
            axes = [self._axis_of(tensor, layer) for tensor in tf.nest.flatten(inputs)]
            first = tf.nest.flatten(inputs)[0]
            self._inputs[id(layer)] = (tuple(first.shape[1:]), axes[0])
            outputs = call(inputs, *args, **kwargs)
            if not is_container:
                layer_rules.check(layer, len(axes), (args, kwargs), outputs)
                if id(layer) in self._outputs and layer.variables:
                    raise layer_rules.error(layer, "it is used more than once")
                axis = (rule or layer_rules.unknown)(self, layer, axes, first.shape, outputs.shape)
                # A layer without variables may be used again; no single axis is its output then.
                self._outputs[id(layer)] = None if id(layer) in self._outputs else axis
                self._tensors[outputs.ref()] = axis
            return outputs

        return watched

    def _axis_of(self, tensor: Tensor, layer: Layer) -> Optional[Axis]:
        if tensor.ref() not in self._tensors:
            raise layer_rules.error(layer, "its input is not the output of a Keras layer")
        return self._tensors[tensor.ref()]

    def new(self, layer: Layer, size: int) -> Axis:
        """Return the axis of a new group, which a layer makes."""
        self._parents.append(len(self._parents))
        self._sizes.append(size)
        self._makers[self._parents[-1]] = [layer]
        return Axis(self._parents[-1])

    def own(
        self, variable: Optional[Variable], *axes: Optional[Axis], made: Optional[int] = None
    ) -> None:
        """Say what a variable's last axes are, and which of them, counted from 0, the layer makes.

        By default it is the last one that has channels.
        """
        if variable is None:
            return
        before = (None,) * (len(variable.shape) - len(axes))
        known = [i for i, axis in enumerate(axes) if axis]
        self._axes[id(variable)] = (*before, *axes)
        self._made[id(variable)] = len(before) + (max(known, default=0) if made is None else made)

    def join(self, layer: Layer, axes: Axes) -> Optional[Axis]:
        """Make the groups of several inputs one."""
        known = [axis for axis in axes if axis]
        if len({axis.repeat for axis in known}) > 1:
            raise layer_rules.error(layer, "it combines channels that are laid out differently")
        roots = sorted({self._root(axis.group) for axis in known})
        self._whole.update(roots if len(known) < len(axes) else ())
        if len({self._sizes[root] for root in roots}) > 1:
            raise layer_rules.error(layer, "it combines different numbers of channels")
        for root in roots[1:]:
            self._parents[root] = roots[0]
            self._makers[roots[0]] += self._makers.pop(root)
        return known[0] if known else None

    def _root(self, group: int) -> int:
        while self._parents[group] != group:
            group = self._parents[group]
        return group

    def _result(self, layers: Sequence[Layer], logits: Optional[Axis], classes: int) -> Channels:
        whole = {self._root(group) for group in self._whole}
        last = self._root(logits.group) if logits else CLASSES
        sliced = [root for root in self._makers if root not in (*whole, last)]
        numbers = {last: CLASSES, **{root: i for i, root in enumerate(sliced)}}

        def final(axis: Optional[Axis]) -> Optional[Axis]:
            root = self._root(axis.group) if axis else -1
            return Axis(numbers[root], axis.repeat) if axis and root in numbers else None

        outputs = {i: final(self._outputs.get(id(layer))) for i, layer in enumerate(layers)}
        known = {i: axis for i, axis in outputs.items() if axis and axis.group != CLASSES}
        model = self._model
        axes = [
            tuple(final(axis) for axis in self._axes.get(id(v), (None,) * len(v.shape)))
            for v in model.variables
        ]
        made = [self._made.get(id(v)) for v in model.variables]
        return Channels(
            groups=tuple(self._group(root) for root in sliced),
            axes=tuple(axes),
            made=tuple(
                tuple(axis if i == own else None for i, axis in enumerate(each))
                for each, own in zip(axes, made)
            ),
            outputs=known,
            inputs={key: (shape, final(axis)) for key, (shape, axis) in self._inputs.items()},
            classes=classes,
            scored=_scored(layers, known),
            template=model,
        )

    def _group(self, root: int) -> Group:
        makers = self._makers[root]
        dense = all(isinstance(layer, tf.keras.layers.Dense) for layer in makers)
        return Group(self._sizes[root], tuple(layer.name for layer in makers), dense)


def _scored(layers: Sequence[Layer], outputs: dict[int, Axis]) -> tuple[int, ...]:
    """Return the activations; for a group without any, the layers that make it."""
    active = [i for i in outputs if layer_rules.is_activation(layers[i])]
    covered = {outputs[i].group for i in active}
    makers = [
        i for i, axis in outputs.items() if layer_rules.rule_of(layers[i]) in layer_rules.MAKERS
    ]
    return tuple(sorted({*active, *(i for i in makers if outputs[i].group not in covered)}))


def _is_container(layer: Layer) -> bool:
    return not layer_rules.rule_of(layer) and bool(layer_rules.inner(layer))


def _containers(layers: Sequence[Layer]) -> list[Layer]:
    outer = [layer for layer in layers if _is_container(layer)]
    return [x for layer in outer for x in (layer, *_containers(layer_rules.inner(layer)))]
