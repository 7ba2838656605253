"""One forward pass in which every layer, and every operation between layers, says what becomes of
the channels.

Layers of known kinds (`layer_rules`) speak for themselves and their variables. What is computed
between them is read from the graph (`operations`). A layer that consists of others is followed
inside.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Callable, NamedTuple, Optional

from tff_partial.core import keras_compat
from tff_partial.core.lazy import tf
from tff_partial.core.model import Model
from tff_partial.core.types import Layer, Structure, Tensor, Variable
from tff_partial.submodels import labels as moving
from tff_partial.submodels import layer_rules, op_layers, operations
from tff_partial.submodels.labels import NotFollowed, Shape
from tff_partial.submodels.layer_rules import Kind
from tff_partial.submodels.neurons import Labels, Neurons, Owners


class Resized(NamedTuple):
    """A field of a layer's configuration that says how many channels there are.

    Attributes:
      field: Its name, or the way to it, `layer/config/units`.
      axis: The axis whose length it is.
    """

    field: str
    axis: Owners


class Analysis:
    """What the layers and operations of a model say about channels.

    Attributes:
      neurons: All of them, and which are joined.
      makers: The layers that make channels, and those.
      variables: id of a variable -> the owners along its axes.
      made: id of a variable -> the axis of channels that its layer makes.
      resized: id of a layer -> what a narrow copy of it has less of.
      inputs: id of a layer -> shape and labels of each of its inputs.
      outputs: id of a layer -> labels of its output; None if it was used with different ones.
      logits: Labels of the model's output.
      classes: Number of logits.
    """

    def __init__(self, model: Model) -> None:
        self.neurons = Neurons()
        self.makers: list[tuple[Layer, Owners]] = []
        self.variables: dict[int, Labels] = {}
        self.made: dict[int, int] = {}
        self.resized: dict[int, list[Resized]] = {}
        self.inputs: dict[int, list[tuple[Shape, Labels]]] = {}
        self.outputs: dict[int, Optional[Labels]] = {}
        self._made: dict[tuple[int, str], Owners] = {}
        self._labels: dict[Structure, Labels] = {}
        self._calling: list[Layer] = []
        self._refused: Optional[ValueError] = None
        self._run(model)

    def _run(self, model: Model) -> None:
        spec = model.spec
        example = tf.compat.v1.placeholder(spec.input_dtype, [None, *spec.input_shape])
        x = model.preprocess(example)
        self._graph, self._labels[x.ref()] = x.graph, moving.none(len(x.shape))
        kind = tf.keras.layers.TimeDistributed
        self._distributed = tuple(layer.name for layer in model.layers_of(kind))
        with keras_compat.replaced_calls(_watched(model.blocks), self._watching):
            try:
                logits = model.forward(x, training=False)
            except ValueError as error:
                # Keras and AutoGraph add where they were to what they pass on.
                raise (self._refused or error) from None
        self.logits, self.classes = self.labels(logits, model.blocks[-1]), logits.shape[-1]

    def _watching(self, layer: Layer) -> Callable[..., Structure]:
        call = layer.call

        # Keras reads the signature of `call` when it decides what to pass.
        @functools.wraps(call)
        def watched(*args: Structure, **kwargs: Structure) -> Structure:
            tensors = enter(layer, args, kwargs)
            outputs = call(*args, **kwargs)
            leave(layer, tensors, outputs)
            return outputs

        # AutoGraph may convert what is called, for a user's layers, but not this.
        enter, leave = map(tf.autograph.experimental.do_not_convert, (self._enter, self._leave))
        return watched

    def _enter(self, layer: Layer, args: Structure, kwargs: Structure) -> list[Tensor]:
        """Note the inputs of a layer, and return them.

        None are those of another graph: a Sequential builds one when it learns its input's shape.
        """
        unmasked = {key: x for key, x in kwargs.items() if key not in _MASKS}
        tensors = [x for x in tf.nest.flatten([args, unmasked]) if tf.is_tensor(x)]
        if any(tensor.graph is not self._graph for tensor in tensors):
            return []
        labels = [self.labels(tensor, layer) for tensor in tensors]
        self._calling.append(layer)
        with self._naming(layer):
            self._receive(layer, tensors, labels)
        return tensors

    def _leave(self, layer: Layer, tensors: Sequence[Tensor], outputs: Structure) -> None:
        if tensors:
            labels = [self.labels(tensor, layer) for tensor in tensors]
            with self._naming(layer):
                self._answer(layer, tensors, labels, outputs)
            self._calling.pop()

    @contextlib.contextmanager
    def _naming(self, layer: Layer) -> Iterator[None]:
        """Name the layer in the error if channels cannot be followed."""
        try:
            yield
        except NotFollowed as why:
            self._refused = layer_rules.error(layer, str(why))
            raise self._refused from None
        except ValueError as error:
            self._refused = error
            raise

    def _receive(self, layer: Layer, tensors: Sequence[Tensor], labels: Sequence[Labels]) -> None:
        """Remember the inputs of a layer; those of a second use must agree with them."""
        shapes = [tuple(tensor.shape[1:]) for tensor in tensors]
        if id(layer) not in self.inputs:
            self.inputs[id(layer)] = list(zip(shapes, labels))
        elif layer.variables or layer_rules.is_container(layer):
            for (_, first), again in zip(self.inputs[id(layer)], labels):
                for axis, other in zip(first, again):
                    moving.join(self.neurons, [axis, other])

    def _answer(
        self, layer: Layer, tensors: Sequence[Tensor], labels: Sequence[Labels], outputs: Structure
    ) -> None:
        """Find out what the axes of a layer's outputs are."""
        kind = layer_rules.kind_of(layer)
        if kind is not None:
            layer_rules.check(layer, kind, len(tensors), outputs)
            shapes = [tuple(tensor.shape) for tensor in tensors]
            self._labels[outputs.ref()] = self._ruled(kind, layer, labels, shapes, outputs.shape)
        elif _own_variables(layer):
            raise NotFollowed("it is of no such kind and has variables of its own")
        for tensor in tf.nest.flatten(outputs):
            if kind is None and not layer_rules.inner(layer) and all(map(moving.is_free, labels)):
                self._labels[tensor.ref()] = moving.none(tensor.shape.rank)
            found = self._followed(tensor)
            again = id(layer) in self.outputs and not layer.variables
            # A layer without variables may be used again; no single axis is its output then.
            self.outputs[id(layer)] = None if again else found

    def _ruled(
        self,
        kind: Kind,
        layer: Layer,
        labels: Sequence[Labels],
        shapes: Sequence[Shape],
        out: Shape,
    ) -> Labels:
        """Return what the rule of a layer's kind says of its output."""
        out = tuple(out)
        if kind.moves is not None:
            labels = [self.neurons.without_kept(x) for x in labels]
            return kind.moves(self, layer, labels, shapes, out)
        if kind.channels is None:
            raise NotFollowed("it is of no such kind")
        before = [self.neurons.without_kept(x[:-1]) for x in labels]
        if not kind.pointwise and not all(map(moving.is_free, before)):
            raise NotFollowed("its channels must be the last axis")
        axes = [x[-1] if x else None for x in labels]
        axis = kind.channels(self, layer, axes, shapes[0], out)
        if axis is not None and len(axis) != out[-1]:
            raise NotFollowed(f"its rule returns {len(axis)} channels instead of {out[-1]}")
        return (*(before[0] if kind.pointwise else moving.none(len(out) - 1)), axis)

    def labels(self, tensor: Tensor, layer: Layer) -> Labels:
        """Return what the axes of a tensor are that a layer takes or returns."""
        with self._naming(layer):
            return self._followed(tensor)

    def _followed(self, tensor: Tensor) -> Labels:
        """Return what the axes of a tensor are, if need be by the operations that compute it."""
        if tensor.ref() not in self._labels:
            inputs = [self._followed(x) for x in tensor.op.inputs]
            results = operations.follow(self, tensor.op, inputs)
            for output, labels in zip(tensor.op.outputs, results):
                self._labels.setdefault(output.ref(), labels)
        return self._labels[tensor.ref()]

    def check_literal(self, name: str) -> None:
        """Raise `NotFollowed` if a number of channels stands in code that is not made anew.

        `name` is that of the operation. What a TimeDistributed reshapes to, it asks its input.
        """
        is_distributed = any(step.startswith(self._distributed) for step in name.split("/"))
        layer = self._calling[-1] if self._calling else None
        if not is_distributed and not op_layers.is_made_anew(layer):
            raise NotFollowed("it reshapes to a fixed number of channels")

    def new(self, layer: Layer, size: int, field: str = "units") -> Owners:
        """Return the channels that a layer makes; `field` of its configuration is their number.

        A layer that is used again makes the same ones.
        """
        key = id(layer), field
        if key not in self._made:
            self._made[key] = self.neurons.new(size)
            self.makers.append((layer, self._made[key]))
            self.resize(layer, field, self._made[key])
        return self._made[key]

    def resize(self, layer: Layer, field: str, axis: Optional[Owners]) -> Optional[Owners]:
        """Say that a field of a layer's configuration is the length of an axis; return the axis."""
        if axis is not None:
            self.resized.setdefault(id(layer), []).append(Resized(field, axis))
        return axis

    def own(
        self, variable: Optional[Variable], *axes: Optional[Owners], made: Optional[int] = None
    ) -> None:
        """Say what a variable's last axes are, and which of them, counted from 0, the layer makes.

        By default it is the last one that has channels.
        """
        if variable is not None:
            known = [i for i, axis in enumerate(axes) if axis is not None]
            last = max(known, default=0) if made is None else made
            self.made[id(variable)] = len(variable.shape) - len(axes) + last
            labels = (*moving.none(len(variable.shape) - len(axes)), *axes)
            before = self.variables.setdefault(id(variable), labels)
            joined = [moving.join(self.neurons, pair) for pair in zip(before, labels)]
            self.variables[id(variable)] = tuple(joined)

    def join(self, layer: Layer, axes: Sequence[Optional[Owners]]) -> Optional[Owners]:
        """Keep the channels at the same position of several axes together."""
        return moving.join(self.neurons, axes)

    def axes(self) -> list[Owners]:
        """Return every axis on which a shape depends."""
        tensors = [labels for calls in self.inputs.values() for _, labels in calls]
        tensors += [labels for labels in self.outputs.values() if labels is not None]
        tensors += self.variables.values()
        axes = [owners for labels in tensors for owners in labels if owners is not None]
        axes += [owners for _, owners in self.makers]
        return axes + [each.axis for resized in self.resized.values() for each in resized]


_MASKS = ("mask", "attention_mask")


def _own_variables(layer: Layer) -> bool:
    return bool(layer._trainable_weights or layer._non_trainable_weights)


def _watched(layers: Sequence[Layer]) -> list[Layer]:
    """Return the layers and containers that are watched, each once."""
    found: dict[int, Layer] = {}
    for layer in layers:
        found[id(layer)] = layer
        if layer_rules.is_container(layer):
            found |= {id(x): x for x in _watched(layer_rules.inner(layer))}
    return list(found.values())
