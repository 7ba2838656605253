"""What a client of a tier would deploy: its sub-model out of the server's weights.

A rule that looks at a client's data (FedDSE) gets a mix of all clients' and all classes; one that
moves from round to round (FedRolex, Federated Dropout) chooses as in the first, so that a tier has
the same channels in all rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, NamedTuple, Optional

import numpy as np

from tff_partial.core import client_data
from tff_partial.core.lazy import tf, tff
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Array, Tensor, Weights
from tff_partial.processes import sparse_clients
from tff_partial.processes.submodel import SubmodelParams
from tff_partial.submodels import groups, narrowing, selection, slicing
from tff_partial.tiers import Tier


class Deployment(NamedTuple):
    """A smaller model, or one with zeros, and its weights out of the server's."""

    spec: ModelSpec
    extract: Callable[[Weights], Weights]


def create(
    model: ModelSpec,
    params: SubmodelParams,
    create_rule: selection.CreateRule,
    tier: Tier,
    examples: Array,
    seed: int = 0,
) -> Optional[Deployment]:
    """Return what a client of the tier would deploy; None if it is the whole model.

    Args:
      model: The full model.
      params: Hyperparameters.
      create_rule: Returns the rule that chooses channels.
      tier: The tier.
      examples: What a rule may look at, as clients hold theirs.
      seed: Seed of a rule that draws.
    """
    sizes, channels = params.submodel(model, tier).sizes, groups.analyse(model)
    if all(k == group.size for k, group in zip(sizes, channels.groups)):
        return None
    rule = create_rule(channels)
    labels = np.arange(len(examples)) % max(channels.classes, 2)
    (record,) = client_data.create_records([(examples, labels)], seed)
    element = record.get_single_element()

    trainable = len(channels.template.trainable)

    def as_weights(values: Sequence[Tensor]) -> Weights:
        return tff.learning.models.ModelWeights(list(values[:trainable]), list(values[trainable:]))

    def extract(values: Sequence[Tensor]) -> list[Tensor]:
        request = selection.Request(sizes, as_weights(values), element, tf.constant(0))
        return slicing.extract(channels, values, rule(request))

    signature = [tf.TensorSpec(v.shape, v.dtype) for v in channels.template.variables]
    traced = tf.function(extract, autograph=False).get_concrete_function(signature)

    def of_weights(weights: Weights) -> Weights:
        values = [*weights.trainable, *weights.non_trainable]
        return as_weights(traced([tf.convert_to_tensor(value) for value in values]))

    return Deployment(narrowing.create(model, sizes), of_weights)


def sparse(model: ModelSpec, rate: float, threshold: str) -> Optional[Deployment]:
    """Return the model with the weights of the largest magnitude alone; None at rate 1."""
    if rate == 1:
        return None
    with tf.Graph().as_default():
        together = sparse_clients.masked(model.instantiate(initial=False), threshold)

    def extract(weights: Weights) -> Weights:
        values = [tf.convert_to_tensor(value) for value in weights.trainable]
        held = sparse_clients.holds(values, sparse_clients.thresholds(values, together, rate))
        kept = [value * h for value, h in zip(values, held)]
        return tff.learning.models.ModelWeights(kept, weights.non_trainable)

    return Deployment(model, extract)
