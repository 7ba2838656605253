"""What an algorithm with client state says about itself: what clients and server keep and do.

Vectors have an entry for each trainable variable; states are vectors, scalars or dictionaries of
them. Everything here is called in the graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Callable, NamedTuple

from tff_partial.core.schedules import Schedule
from tff_partial.core.types import Structure, Tensor
from tff_partial.core.vectors import Vector

State = Structure
# Why algorithms whose clients keep variates refuse other local optimisers than SGD.
VARIATES_NEED_SGD = "whose displacement over its steps and rate is the mean gradient of a variate"
# Why algorithms whose server keeps a drift refuse other server optimisers.
DRIFT_NEEDS_SUM = "to which the sum of past displacements is added"
# (The selected clients, those of the next round, all) -> who else trains.
Unselected = Callable[[Sequence[int], Sequence[int], Sequence[int]], Sequence[int]]


class Client(NamedTuple):
    """What a client knows in a round.

    Attributes:
      weights: The server's model (x, theta).
      sent: What the server sends beside it.
      state: What the client has kept.
      selected: Whether what it does goes to the server.
      round_num: Number of the round, from 0.
      learning_rate: The round -> eta.
      steps: How many gradients the displacement of this round is: K, the number of local steps
        (at least 1), without momentum; `LocalTraining.effective_steps` with it.
      momentum: Momentum of local SGD (mu).
      train: (Start, slope) -> the model after local SGD, and the slope there. The slope is the
        gradient of what the algorithm adds to the client's objective, given at the server's model
        (where the gradient of `Rules.pull` is 0) and returned at the trained one. It can be left
        out. To be called once.
    """

    weights: Vector
    sent: State
    state: State
    selected: Tensor
    round_num: Tensor
    learning_rate: Schedule
    steps: Tensor
    momentum: float
    train: Callable[..., tuple[Vector, Vector]]


class Update(NamedTuple):
    """What comes of a client's round.

    Attributes:
      model: Its local model; the server receives the mean over the selected clients.
      state: What it keeps.
      summed: A vector or a dictionary of them of which the server receives the sum over the
        selected clients.
    """

    model: Vector
    state: State
    summed: State = Vector(())


class Server(NamedTuple):
    """What the server knows at the end of a round.

    Attributes:
      weights: Its model (x, theta).
      state: What it has kept beside it.
      update: Mean over the selected clients of their model minus the server's.
      moved: The sum of the same, whatever the weights in the mean are.
      sums: Sums of what they send beside their model.
      count: Number of selected clients, at least 1.
    """

    weights: Vector
    state: State
    update: Vector
    moved: Vector
    sums: State
    count: Tensor


def add_mean(server: Server) -> tuple[Vector, State]:
    """Make the mean of the clients' models the server's."""
    return server.weights + server.update, server.state


def nobody(*clients: Sequence[int]) -> Sequence[int]:
    """Let no client train beside those that are selected."""
    return []


@dataclasses.dataclass(frozen=True)
class Rules:
    """An algorithm with client state.

    Attributes:
      client_state: Initial model -> what a client keeps that never took part.
      server_state: Initial model -> what the server keeps beside its model.
      client: What a client does.
      server: What the server does -> its new model and state.
      pull: Weight of a penalty 1/2 |w - x|^2 on a client's distance from the server's model.
      sent: What of the server's state is sent to the clients.
      other_models: Label -> (server's state -> a further model that is evaluated).
      unselected: (The selected clients, those of the next round, all) -> who else trains.
    """

    client_state: Callable[[Vector], State]
    client: Callable[[Client], Update]
    server_state: Callable[[Vector], State] = lambda weights: ()
    server: Callable[[Server], tuple[Vector, State]] = add_mean
    pull: float = 0.0
    sent: Callable[[State], State] = lambda state: ()
    other_models: Mapping[str, Callable[[State], Vector]] = dataclasses.field(default_factory=dict)
    unselected: Unselected = nobody
