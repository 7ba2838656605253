"""FedNova: clients that make more steps do not pull the model further.

Wang et al., Tackling the objective inconsistency problem in heterogeneous federated optimization,
2020:

    for each client i of the cohort S, in parallel:
        y <- K_i steps of SGD with momentum mu from x
        a_i <- sum over its gradients of how often y holds each:  (1 - mu^(K_i - k)) / (1 - mu)
        d_i <- (y - x) / a_i
    tau <- sum over S of p_i a_i;  x <- x + tau * sum over S of p_i d_i

with p_i = n_i / n, the client's share of the examples, or uniform. Without momentum a_i is K_i. In
FedAvg each d_i counts a_i-fold instead, so that the model moves towards the optimum of a problem in
which clients with more steps have more weight.

It differs from FedAvg only where clients make different numbers of steps: with `--local_epochs`.

Differences from the paper: batch-norm statistics are averaged as in FedAvg. The paper's proximal
term and server momentum are not here; `--server_optimizer` takes the place of the latter.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Sequence

from tff_partial.algorithms.declaration import Algorithm, whole_model_cost
from tff_partial.core.aggregation import MEAN, TRAINED
from tff_partial.core.aggregators import AggregatorLike, as_aggregator
from tff_partial.core.lazy import tf, tff
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import ModelSpec
from tff_partial.core.part import everything
from tff_partial.core.server_optimizers import ServerOptimizer
from tff_partial.core.types import (
    Federated,
    LearningProcess,
    Record,
    Structure,
    Tensor,
    TffType,
    Weights,
)
from tff_partial.processes import client_work, learning

REFUSED = dict.fromkeys(("robust", "dp"), "clients send their number of steps beside their update")


@dataclasses.dataclass(frozen=True)
class Params:
    """Hyperparameters of FedNova.

    Attributes:
      local: How a client trains.
      weighting: Weight of a client in the mean: `examples` or `uniform`.
      server: What the server makes of the mean.
    """

    local: LocalTraining = dataclasses.field(default_factory=lambda: LocalTraining(epochs=1))
    weighting: str = "examples"
    server: ServerOptimizer = learning.SUM

    def __post_init__(self) -> None:
        learning.check_mean(self.weighting)
        self.local.check_sgd("whose gradients a_i counts")


class NormalizedMean:
    """Makes of a mean that of d_i, times tau; a weighted TFF aggregation factory.

    Args:
      mean: The factory of the mean, which may say who trained.
      says_who: As in `ContributorMean`.
    """

    def __init__(
        self, mean: tff.aggregators.WeightedAggregationFactory, says_who: bool = False
    ) -> None:
        # A virtual subclass, because TFF is imported late (core/lazy.py).
        tff.aggregators.WeightedAggregationFactory.register(NormalizedMean)
        self._mean, self._says_who = mean, says_who

    def create(self, value_type: TffType, weight_type: TffType) -> tff.templates.AggregationProcess:
        """Return the process for what `_normalized` returns; its result is an update."""
        mean = self._mean.create(value_type, weight_type)

        @tff.tensorflow.computation
        def rescale(result: Structure) -> Structure:
            mean = result[MEAN] if TRAINED in result else result  # a factory of a user's
            delta, tau = mean["delta"], mean["steps"]
            moved = [tau * d for d in delta.trainable]
            update = tff.learning.models.ModelWeights(moved, delta.non_trainable)
            if not self._says_who or TRAINED not in result:
                return update
            return OrderedDict({MEAN: update, TRAINED: result[TRAINED]["delta"]})

        @tff.federated_computation(*mean.next.type_signature.parameter)
        def next_fn(state: Federated, value: Federated, weight: Federated) -> Federated:
            done = mean.next(state, value, weight)
            result = tff.federated_map(rescale, done.result)
            return tff.templates.MeasuredProcessOutput(done.state, result, done.measurements)

        return tff.templates.AggregationProcess(mean.initialize, next_fn)


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""
    local, combined = params.local, as_aggregator(aggregator)
    combined.check(REFUSED)

    def create_client_fns(tiers: Sequence[int]) -> list[client_work.ClientFn]:
        built = model.instantiate(local.precision, initial=False)
        train = client_work.train_part(built, everything(built), local, 0.0, params.weighting)

        def run(weights: Weights, record: Record, round_num: Tensor) -> client_work.Outcome:
            result, sums = train(weights, record, round_num)
            steps = local.effective_steps(local.num_steps(tf.shape(record["y"])[0]))
            weight = client_work.client_weight(record, params.weighting)
            return _normalized(result.update, result.update_weight, steps, weight), sums

        return [run]

    return learning.compose(
        model,
        create_client_fns,
        1,
        server=params.server,
        aggregator=combined,
        wrap=NormalizedMean,
    )


def _normalized(update: Weights, weights: Weights, steps: Tensor, weight: Tensor) -> Structure:
    """Return what a client sends: d_i and a_i, each with its weight."""
    per_step = [tf.math.divide_no_nan(d, steps) for d in update.trainable]
    delta = tff.learning.models.ModelWeights(per_step, update.non_trainable)
    return tff.learning.templates.ClientResult(
        OrderedDict(delta=delta, steps=steps), OrderedDict(delta=weights, steps=weight)
    )


ALGORITHM = Algorithm(
    name="fednova",
    title="clients that make more steps do not pull the model further",
    paper="",
    params=Params,
    build=build,
    cost=whole_model_cost,
    refused=REFUSED,
)
