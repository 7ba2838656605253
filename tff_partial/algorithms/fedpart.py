"""FedPart: one group of layers a round, from the input to the output, again and again.

Wang et al., Why go full? Elevating federated learning through partial network updates, 2024; with
the schedule of its public code. The layers are in groups 1, ..., L:

    for each cycle:
        full_rounds rounds:                     FedAvg, of the whole model
        for l = 1 to L:
            rounds_per_group rounds:
                each client i of the cohort:    w_i <- local SGD of group l alone, from w
                group l of w <- mean of group l of w_i

What is sent is what is trained. The forward pass runs through the whole model, the error signal
back to the group. When all parts of a model are trained and averaged at once, they no longer fit to
each other; a group that is trained alone adapts to the others as they are.

Differences from the paper: a group is a block with a kernel and the blocks without that follow it
(such as normalisation): in residual networks, whole residual blocks, where the public code trains
each convolution by itself. Clients keep nothing: in the public code each has its own batch-norm
statistics, here those of all layers are sent in every round and averaged. A cohort is drawn every
round, so that all of the model is counted as bytes down. Costs are the mean of a cycle, memory is
that of its largest round.
"""

from __future__ import annotations

import dataclasses
import functools

from tff_partial import costs
from tff_partial.algorithms.declaration import Algorithm
from tff_partial.core import checks
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import ModelSpec
from tff_partial.core.server_optimizers import ServerOptimizer
from tff_partial.core.types import LearningProcess
from tff_partial.layers import parts
from tff_partial.processes import learning
from tff_partial.tiers import Tier


@dataclasses.dataclass(frozen=True)
class Params:
    """Hyperparameters of FedPart.

    Attributes:
      local: How a client trains.
      full_rounds: Rounds of the whole model at the beginning of each cycle.
      rounds_per_group: Rounds in a row that train the same group of layers.
      weighting: Weight of a client in the mean: `examples` or `uniform`.
      server: What the server makes of the mean.
    """

    local: LocalTraining = dataclasses.field(default_factory=lambda: LocalTraining(epochs=1))
    full_rounds: int = 5
    rounds_per_group: int = 2
    weighting: str = "examples"
    server: ServerOptimizer = learning.SUM

    def __post_init__(self) -> None:
        checks.finite_fields(self)
        learning.check_mean(self.weighting)
        for name, least in (("full_rounds", 0), ("rounds_per_group", 1)):
            if (value := getattr(self, name)) < least:
                raise ValueError(f"{name} must be at least {least}. Received: {name}={value}")

    def cycle(self, groups: int) -> list[int]:
        """Return what each round of a cycle trains: 0 for everything, else the group."""
        of_groups = [group for group in range(1, groups + 1) for _ in range(self.rounds_per_group)]
        return [0] * self.full_rounds + of_groups


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""
    groups = parts.groups(model)
    of_groups = [functools.partial(parts.between, start=i, stop=j) for i, j in groups]
    return learning.build_learning_process(
        model,
        params.local,
        [parts.everything, *of_groups],
        weighting=params.weighting,
        server=params.server,
        aggregator=aggregator,
        cycle=params.cycle(len(groups)),
    )


def cost(model: ModelSpec, params: Params, tier: Tier) -> costs.ClientCost:
    """Return what a round costs a client, in the mean of a cycle."""
    groups, size = parts.groups(model), params.local.batch_size
    of_phases = [costs.whole(model, size), *(costs.between(model, *g, size) for g in groups)]
    return costs.mean([of_phases[phase] for phase in params.cycle(len(groups))])


ALGORITHM = Algorithm(
    name="fedpart",
    title="one group of layers a round, in cycles",
    paper="",
    params=Params,
    build=build,
    cost=cost,
)
