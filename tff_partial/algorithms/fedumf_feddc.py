"""FedUMF combined with FedDC, 'FedUmf' in tables A1 and A2 of papers/fedumf.txt.

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
from typing import Any

from tff_partial import costs
from tff_partial.algorithms import feddc, fedumf
from tff_partial.core.model import ModelSpec
from tff_partial.core.vectors import Vector, choose
from tff_partial.processes import stateful
from tff_partial.processes.stateful import Client, Update


@dataclasses.dataclass(frozen=True)
class Params(feddc.Params):
    """Hyperparameters of the combination.

    Attributes:
      fusion: FedUMF's fusion coefficient, in (0, 1]; `alpha` is FedDC's.
      literal: Whether all clients train in every round.
    """

    fusion: float = 1.0
    literal: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        fedumf.check_fusion("fusion", self.fusion)


def build(model: ModelSpec, params: Params) -> stateful.StatefulProcess:
    """Returns the process."""
    rules = feddc.create_rules(params)

    def client_state(x: Vector) -> Any:
        return collections.OrderedDict(feddc=rules.client_state(x), fedumf=fedumf.nothing_stored(x))

    def client(of: Client) -> Update:
        stored, own = of.state["fedumf"], of.state["feddc"]
        start = fedumf.fused(of, stored, params.fusion)
        update = feddc.client(of._replace(state=own), start)
        state = collections.OrderedDict(
            feddc=choose(of.selected, update.state, own),
            fedumf=fedumf.stored_after(of, start, update.model),
        )
        return update._replace(state=state)

    combined = dataclasses.replace(
        rules,
        client_state=client_state,
        client=client,
        unselected=fedumf.unselected(params.literal),
    )
    return stateful.build(model, params.local, combined, params.weighting)


def cost(model: ModelSpec, params: Params, tier: str) -> costs.ClientCost:
    """What a round costs a client that uploads."""
    return feddc.cost(model, params, tier)
