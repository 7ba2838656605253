"""Partial model averaging: a different subset of the parameters is averaged after every local step.

Lee et al., Partial model averaging in federated learning: performance guarantees and benefits,
2022:

    for k = 1 to K:                                                             (algorithm 1)
        every client i:  x_i <- x_i - eta * g(x_i)
        j <- k mod tau
        u_j <- mean over the clients of subset j of x_i
        every client i:  subset j of x_i <- u_j
    return the mean of x_i

tau is `--local_steps`, a round is tau steps. With `rounds_active` = R, other clients become active
every R rounds and take over the average (design 1) or the local models as they are (design 2, the
paper's choice). Against periodic averaging every 10 steps the paper uses tau = 11 and R = 10:
`cost` counts a whole model more every R rounds, so that both send the same.

With `mu` > 0, g is the gradient of FedProx's loss, the paper's example of another local solver:
g(x_i) + mu * (x_i - z), where subset j of z is u_j of its last average.

Differences from the paper: subsets are numbered from 0. FedProx pulls to the server's model, which
no client has here; the paper does not say what takes its place. z does: in FedProx, too, it is what
was averaged last. It is the same for all clients, so that it holds them together, and costs no
bytes. Clients that become active take z over as they take over the model. Momentum and batch-norm
statistics stay local, as the paper averages parameters only; for the model that is evaluated the
statistics are averaged. The paper does not say what becomes of momentum when other clients become
active: here a client takes over that of its predecessor (with `reset_momentum` it starts from 0),
so that intervals and designs are compared at the same effective rate. Bytes are the paper's,
without this momentum. Batches are shuffled anew every round. Momentum has Keras's form, as in the
paper's TensorFlow: it holds eta * v.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from tff_partial import costs
from tff_partial.algorithms.declaration import Algorithm, Defaults
from tff_partial.core import checks
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.processes import averaging, parameter_subsets
from tff_partial.tiers import Tier


@dataclasses.dataclass(frozen=True)
class Params(averaging.ProximalParams):
    """Hyperparameters of partial averaging.

    Attributes:
      partition: Subsets hold whole layers (`layer`) or some channels of each (`channel`).
    """

    partition: str = "channel"
    DEFAULT_ROUNDS_ACTIVE: ClassVar[int] = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("partition", self.partition, parameter_subsets.PARTITIONS)


def build(
    model: ModelSpec, params: Params, aggregator: AggregatorLike = None
) -> averaging.AveragingProcess:
    """Return the process."""
    tau = params.interval()
    layout = parameter_subsets.create(model, params.partition, tau)
    every_step = [(step, step + 1, step) for step in range(tau)]
    rules = averaging.Rules(layout, every_step, pull=params.mu)
    return averaging.build(model, params, rules, aggregator)


def cost(model: ModelSpec, params: Params, tier: Tier) -> costs.ClientCost:
    """Return what a round costs a client, its share of handing the models over included."""
    whole = costs.whole(model, params.local.batch_size)
    rounds = params.period()
    share = 1 / rounds if rounds else 0
    return whole.with_vectors(down=share, up=share)


ALGORITHM = Algorithm(
    name="partial_averaging",
    title="another subset of the parameters is averaged each step",
    paper="partial_averaging",
    params=Params,
    build=build,
    cost=cost,
    needs=("population", "active"),
    refused=averaging.REFUSED,
    defaults=Defaults(local_steps=10),
)
