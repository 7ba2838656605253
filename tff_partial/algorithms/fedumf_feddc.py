"""FedUMF combined with FedDC.

'FedUmf' in tables A1 and A2 of Li et al., Model fusion from unauthorized clients in federated
learning, 2022:

    for each round t:
        for each client i:
            theta^i <- theta_t, and the stale update where FedUMF fuses it
            y <- K steps of SGD from theta^i on FedDC's objective
            g^i <- y - theta^i
        clients of S_t and the server go on as in FedDC

Differences from the paper: it does not say how the two are combined. Here the penalty and the
drift refer to the server's model, as in FedDC, the variate to the steps of this round; clients
that only train for the next round leave their drift and variate as they are.
"""

from __future__ import annotations

import collections
import dataclasses

from tff_partial.algorithms.declaration import Algorithm, Defaults
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Structure
from tff_partial.core.vectors import Vector, choose
from tff_partial.processes import drift_correction, stale_updates, stateful, uploads
from tff_partial.processes.stateful_rules import Client, Update


@dataclasses.dataclass(frozen=True)
class Params(drift_correction.DriftParams):
    """Hyperparameters of the combination.

    Attributes:
      fusion: FedUMF's fusion coefficient, in (0, 1]; `alpha` is FedDC's.
      literal: Whether all clients train in every round.
    """

    fusion: float = 1.0
    literal: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        stale_updates.check_coefficient("fusion", self.fusion)


def build(
    model: ModelSpec, params: Params, aggregator: AggregatorLike = None
) -> stateful.StatefulProcess:
    """Return the process."""
    rules = drift_correction.create_rules(params)

    def client_state(x: Vector) -> Structure:
        return collections.OrderedDict(feddc=rules.client_state(x), fedumf=stale_updates.nothing(x))

    def train(client: Client) -> Update:
        stored, drift = client.state["fedumf"], client.state["feddc"]
        start = stale_updates.fused_start(client, stored, params.fusion)
        update = drift_correction.train(client._replace(state=drift), start)
        state = collections.OrderedDict(
            feddc=choose(client.selected, update.state, drift),
            fedumf=stale_updates.stored_after(client, start, update.model),
        )
        return update._replace(state=state)

    combined = dataclasses.replace(
        rules,
        client_state=client_state,
        client=train,
        unselected=stale_updates.also_training(params.literal),
    )
    return stateful.build(model, params.local, combined, params.weighting, aggregator)


ALGORITHM = Algorithm(
    name="fedumf_feddc",
    title="FedUMF and FedDC combined",
    paper="fedumf_appendix",
    params=Params,
    build=build,
    cost=drift_correction.cost,
    needs=("population",),
    next_cohort_trains=True,
    refused=uploads.REFUSED,
    defaults=Defaults(demo={"alpha": 0.1}),
)
