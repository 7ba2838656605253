"""Adaptive averaging intervals (AdaComm): models are averaged more often as the loss falls.

Wang and Joshi, Adaptive communication strategies to achieve the best error-runtime trade-off in
local-update SGD, 2019; named by Lee et al., Partial model averaging in federated learning, 2022.

    for l = 0, 1, ...:
        tau_l <- ceil(sqrt(F(x_l) / F(x_0)) * tau_0)
        every active client i:  tau_l steps of  x_i <- x_i - eta * g(x_i)
        every active client i:  x_i <- mean over the active clients of x_i

tau_0 is `--local_steps`, and a round is the tau_l steps up to an average: the column `interval` of
metrics.csv. At first a few averages of models that have trained for long bring the loss down; later
their distance would keep it from falling further.

Differences from the paper: it renews tau_l after some seconds, here after every average. F(x_l) is
the mean training loss of the steps of round l - 1, F(x_0) that of round 0. tau_l is at most tau_0.
The paper's rules for learning rates that decay are left out: `--learning_rate` is a schedule of the
round, and a round of fewer steps sees only the beginning of what it says for that round. Costs are
those of a round of tau_0 steps, the most that there are; bytes are exact.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tff_partial.algorithms.declaration import Algorithm, Defaults, whole_model_cost
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.lazy import tf
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Metrics, Structure, Tensor
from tff_partial.processes import averaging, averaging_rules


@dataclasses.dataclass(frozen=True)
class Params(averaging.AveragingParams):
    """Hyperparameters of adaptive averaging."""

    design: int = 1


def build(
    model: ModelSpec, params: Params, aggregator: AggregatorLike = None
) -> averaging.AveragingProcess:
    """Return the process."""
    rules = averaging_rules.varying(model, params.interval(), _intervals(params.interval()))
    return averaging.build(model, params, rules, aggregator)


def _intervals(longest: int) -> averaging_rules.Intervals:
    """Return AdaComm's rule; its state is F(x_0), 0 before the first round, and the segment."""

    def segment(state: Structure, round_num: Tensor) -> Tensor:
        return state[1]

    def after(state: Structure, round_num: Tensor, metrics: Metrics) -> Structure:
        first, segment = state
        loss = metrics["train_loss"]
        first = tf.where(first > 0, first, loss)
        steps = tf.math.ceil(tf.sqrt(tf.math.divide_no_nan(loss, first)) * longest)
        chosen = tf.cast(tf.clip_by_value(steps, 1, longest), tf.int32) - 1
        nobody_trained = tf.equal(metrics["train_examples"], 0)
        return first, tf.where(nobody_trained, segment, chosen)

    return averaging_rules.Intervals(
        initial=lambda: (tf.zeros([]), tf.constant(np.int32(longest - 1))),
        segment=segment,
        next=after,
    )


ALGORITHM = Algorithm(
    name="adaptive_averaging",
    title="local models are averaged more often as the loss falls",
    paper="partial_averaging",
    params=Params,
    build=build,
    cost=whole_model_cost,
    needs=("population", "active"),
    refused=averaging.REFUSED,
    defaults=Defaults(local_steps=10),
)
