"""Post-local SGD: synchronous SGD at first, local SGD once the learning rate has fallen.

Lin et al., Don't use large mini-batches, use local SGD, 2020; named by Lee et al., Partial model
averaging in federated learning, 2022.

    for each round t:
        tau_t <- 1 if t < t', else tau
        every active client i:  tau_t steps of  x_i <- x_i - eta * g(x_i)
        every active client i:  x_i <- mean over the active clients of x_i

tau is `--local_steps`; a round is the steps up to an average, a single one for t < t'. By default
t' is the round in which the learning rate falls to another value first (`0.1,30:0.01`), as in the
paper, and 0 if it never does: then this is periodic averaging.

Differences from the paper: it averages gradients while t < t', one momentum for all. Here each
client has its own momentum, and models are averaged; the mean of the models is the same. Costs are
those of a round of tau steps; bytes are exact.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Optional

from tff_partial.algorithms.declaration import Algorithm, Defaults, whole_model_cost
from tff_partial.core import schedules
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.lazy import tf
from tff_partial.core.model import ModelSpec
from tff_partial.processes import averaging, averaging_rules


@dataclasses.dataclass(frozen=True)
class Params(averaging.AveragingParams):
    """Hyperparameters of post-local SGD.

    Attributes:
      synchronous_rounds: Number of rounds of one step at the beginning (t'); by default until the
        first `round:value` of the learning rate that is lower than the one before, 0 without any.
    """

    synchronous_rounds: Optional[int] = None
    design: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.synchronous_rounds is not None and self.synchronous_rounds < 0:
            raise ValueError(
                "synchronous_rounds must not be negative. "
                f"Received: synchronous_rounds={self.synchronous_rounds}"
            )
        self.first_local_round()

    def first_local_round(self) -> int:
        """Return t'."""
        if self.synchronous_rounds is not None:
            return self.synchronous_rounds
        schedule = self.local.schedule()
        if isinstance(schedule, schedules.FunctionSchedule):
            raise ValueError(
                "synchronous_rounds must be given where the learning rate is a function. "
                "Received: synchronous_rounds=None"
            )
        before = [schedule.initial, *(value for _, value in schedule.changes)]
        falls = [at for (at, value), last in zip(schedule.changes, before) if value < last]
        return math.ceil(falls[0]) if falls else 0


def build(
    model: ModelSpec, params: Params, aggregator: AggregatorLike = None
) -> averaging.AveragingProcess:
    """Return the process."""
    tau, first = params.interval(), params.first_local_round()
    intervals = averaging_rules.Intervals(
        initial=lambda: (),
        segment=lambda state, round_num: tf.where(round_num < first, 0, tau - 1),
        next=lambda state, round_num, metrics: state,
    )
    rules = averaging_rules.varying(model, tau, intervals)
    return averaging.build(model, params, rules, aggregator)


ALGORITHM = Algorithm(
    name="post_local_sgd",
    title="synchronous SGD first, then local SGD",
    paper="partial_averaging",
    params=Params,
    build=build,
    cost=whole_model_cost,
    needs=("population", "active"),
    refused=averaging.REFUSED,
    defaults=Defaults(local_steps=10),
)
