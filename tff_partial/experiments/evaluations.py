"""Tests beside that of the server's model: of each tier's model, and accuracy where clients are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable, Optional

import numpy as np

from tff_partial.algorithms.declaration import Algorithm
from tff_partial.core import client_accuracy, evaluation
from tff_partial.core.evaluation import Evaluation
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Array, Weights
from tff_partial.processes import deployment
from tff_partial.tiers import Tier

Evaluate = Callable[..., Evaluation]
Deployed = Mapping[str, Optional[deployment.Deployment]]
"""Label of a tier -> what its clients deploy; None for the whole model."""


def build(
    model: ModelSpec,
    x: Array,
    y: Array,
    deployed: Optional[Deployed] = None,
    labels: Optional[Iterable[Array]] = None,
    **options: Any,
) -> Evaluate:
    """Return `evaluate(weights, examples=None) -> Evaluation`, as `evaluation.build` does.

    Its metrics have `accuracy_<tier>` of what each tier deploys, and if labels are given
    `client_accuracy_mean`, `client_accuracy_lowest_tenth` and `client_accuracy_spread` of the
    server's model (core.client_accuracy).

    Args:
      model: The full model.
      x: Examples as clients hold them.
      y: Labels.
      deployed: What each tier deploys (`deployed_by`).
      labels: The labels of each client.
      **options: Those of `evaluation.build`.
    """
    shares = None if labels is None else client_accuracy.LabelShares(labels)
    classes = 0 if shares is None else max(shares.num_classes, int(np.max(y)) + 1)
    server = evaluation.build(model, x, y, classes=classes, **options)
    tiers = {
        label: None if small is None else _of_small(small, x, y, options)
        for label, small in (deployed or {}).items()
    }

    def evaluate(weights: Weights, examples: Optional[Array] = None) -> Evaluation:
        found = server(weights, examples)
        metrics = dict(found.metrics)
        for label, of_tier in tiers.items():
            tested = found if of_tier is None else of_tier(weights, examples)
            metrics[f"accuracy_{label}"] = tested.metrics["accuracy"]
        if shares is not None and found.of_classes is not None:
            metrics |= client_accuracy.summarize(shares.accuracies(found.of_classes))
        return found._replace(metrics=metrics)

    return evaluate


def deployed_by(
    algorithm: Algorithm[Any],
    model: ModelSpec,
    params: Any,
    tiers: Iterable[Tier],
    examples: Array,
    seed: int = 0,
) -> dict[str, Optional[deployment.Deployment]]:
    """Return what clients of each tier deploy: the whole model if an algorithm has no sub-models.

    Args:
      algorithm: The algorithm's declaration.
      model: The full model.
      params: The algorithm's hyperparameters.
      tiers: The tiers.
      examples: What a rule that looks at data gets: a mix of all clients'.
      seed: Seed of a rule that draws.
    """
    create_rule = algorithm.rule(model, params) if algorithm.rule else None

    def deployed(tier: Tier) -> Optional[deployment.Deployment]:
        if create_rule is not None:
            return deployment.create(model, params, create_rule, tier, examples, seed)
        return algorithm.deployed(model, params, tier) if algorithm.deployed else None

    return {tier.label: deployed(tier) for tier in tiers}


def _of_small(
    small: deployment.Deployment, x: Array, y: Array, options: Mapping[str, Any]
) -> Evaluate:
    test = evaluation.build(small.spec, x, y, **options)

    def evaluate(weights: Weights, examples: Optional[Array] = None) -> Evaluation:
        return test(small.extract(weights), examples)

    return evaluate
