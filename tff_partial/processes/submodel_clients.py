"""What clients do that train some channels of every layer: in a small model, or behind a mask."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import NamedTuple

from tff_partial.core import local_training
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.part import Backprop, carrying
from tff_partial.core.types import Metrics, Record, Structure, Tensor, Weights
from tff_partial.layers import parts
from tff_partial.processes import client_work, distillation, learning
from tff_partial.submodels import groups, selection, slicing
from tff_partial.submodels.groups import Channels


class Submodel(NamedTuple):
    """The small model of a rate: its share of the channels, those of each group, the model."""

    rate: float
    sizes: tuple[int, ...]
    spec: ModelSpec


def narrow(
    channels: Channels,
    rule: selection.Rule,
    small: Submodel,
    model: Model,
    part: parts.Part,
    params: learning.TieredParams,
    by_class: bool,
) -> learning.ClientFn:
    """Return what a client does that trains its small model."""
    train = local_training.build(model, part, params.local)
    learning_rate = params.local.schedule()

    def run(weights: Weights, record: Record, round_num: Tensor) -> tuple[Structure, Metrics]:
        values = [*weights.trainable, *weights.non_trainable]
        kept = _kept(rule, small, channels, weights, record, round_num)
        start = slicing.extract(channels, values, kept)
        sums = train(as_weights(start, len(weights.trainable)), record, learning_rate(round_num))
        delta = [v - w for v, w in zip(model.variables, start)]
        classes = _present(record["y"], channels.classes) if by_class else None
        update, held = slicing.restore(channels, delta, kept, classes)
        weight = client_work.client_weight(record, params.weighting)
        return _result(update, [weight * h for h in held], len(weights.trainable)), sums

    return run


def masked(
    channels: Channels,
    rule: selection.Rule,
    small: Submodel,
    model: Model,
    part: parts.Part,
    params: learning.TieredParams,
    by_class: bool,
) -> learning.ClientFn:
    """Return what a client does that holds all that makes its channels, M on outputs only.

        w <- M w_t;  each step follows M g;  M w is sent, with the weight M

    A channel that is not kept is 0, bias and normalisation included. What a kept channel receives
    from it does not learn, as it sees no input, but is held (and decays, if weights do).
    """
    made = groups.made(channels)
    train = local_training.build(model, _held_part(model, part), params.local)
    learning_rate = params.local.schedule()

    def run(weights: Weights, record: Record, round_num: Tensor) -> tuple[Structure, Metrics]:
        values, count = [*weights.trainable, *weights.non_trainable], len(weights.trainable)
        kept = _kept(rule, small, channels, weights, record, round_num)
        held = slicing.held(made, kept)
        start = [v * h for v, h in zip(values, held)]
        known = collections.OrderedDict(record, held=tuple(held[:count]))
        sums = train(as_weights(start, count), known, learning_rate(round_num))
        delta = [(v - w) * h for v, w, h in zip(model.variables, start, held)]
        if by_class:
            held = slicing.held(made, kept, _present(record["y"], channels.classes))
        weight = client_work.client_weight(record, params.weighting)
        return _result(delta, [weight * h for h in held], count), sums

    return run


def _held_part(model: Model, part: parts.Part) -> parts.Part:
    """Mask the gradients with what the record says is `held`."""

    def backprop(inputs: Structure, y: Tensor) -> Backprop:
        examples, held = inputs
        gradients, *others = local_training.backprop(model, part, examples, y)
        return ([g * h for g, h in zip(gradients, held)], *others)

    return carrying(part, "held")._replace(backprop=backprop)


def _kept(
    rule: selection.Rule,
    small: Submodel,
    channels: Channels,
    weights: Weights,
    record: Record,
    round_num: Tensor,
) -> slicing.Kept:
    """Return the channels that the rule chooses of each group; None for all of them."""
    chosen = rule(selection.Request(small.sizes, weights, record, round_num))
    whole = [k == g.size for k, g in zip(small.sizes, channels.groups)]
    return [None if all_of_it else k for k, all_of_it in zip(chosen, whole)]


def _result(update: Sequence[Tensor], held: Sequence[Tensor], trainable: int) -> Structure:
    return tff.learning.templates.ClientResult(
        update=as_weights(update, trainable), update_weight=as_weights(held, trainable)
    )


def with_logits(
    client_fn: learning.ClientFn, trained: Model, exact: Model, distill: distillation.Distillation
) -> learning.ClientFn:
    """Let the client send the logits of its trained model on the server's examples as well.

    They are computed in float32, by `exact`, which is `trained` unless that is of another type.
    """
    logits = distillation.build_logits(exact, distill.examples)

    def run(weights: Weights, record: Record, round_num: Tensor) -> tuple[Structure, Metrics]:
        result, sums = client_fn(weights, record, round_num)
        if exact is not trained:
            exact.assign(trained.weights)
        weight = client_work.client_weight(record, "uniform")
        return tff.learning.templates.ClientResult(
            update=collections.OrderedDict(weights=result.update, logits=logits()),
            update_weight=collections.OrderedDict(weights=result.update_weight, logits=weight),
        ), sums

    return run


def without_absent(part: parts.Part, classes: int) -> parts.Part:
    """Set the logits of classes that the client lacks to 0."""

    def prepare(record: Record) -> Structure:
        return part.prepare(record), _present(record["y"], classes)

    def batch(inputs: Structure, indices: Tensor) -> Structure:
        return part.batch(inputs[0], indices), inputs[1]

    def forward(inputs: Structure) -> Tensor:
        return part.forward(inputs[0]) * inputs[1]

    return part._replace(prepare=prepare, batch=batch, forward=forward)


def _present(y: Tensor, classes: int) -> Tensor:
    """Return 1.0 for each class that is among the labels, else 0.0."""
    return tf.minimum(tf.math.unsorted_segment_sum(tf.ones_like(y, tf.float32), y, classes), 1.0)


def as_weights(values: Sequence[Tensor], trainable: int) -> Weights:
    """Return a value for each variable, trainable ones first, as weights."""
    ModelWeights = tff.learning.models.ModelWeights
    return ModelWeights(list(values[:trainable]), list(values[trainable:]))
