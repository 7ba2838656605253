"""What the server makes of the mean update: adds it, or takes it for the gradient of an optimiser.

With d the mean of the clients' updates (a pseudo-gradient, pointing downhill), in every round:

    sgd:      w <- w + eta * d
    fedavgm:  m <- beta_1 * m + d;                       w <- w + eta * m
    fedadam:  m <- beta_1 * m + (1 - beta_1) * d
              v <- beta_2 * v + (1 - beta_2) * d^2;      w <- w + eta * m / (sqrt(v) + tau)
    fedyogi:  the same with  v <- v - (1 - beta_2) * d^2 * sign(v - d^2)

m starts at 0, v at tau^2. Hsu et al., Measuring the effects of non-identical data distribution for
federated visual classification, 2019; Reddi et al., Adaptive federated optimization, 2021.

The papers train all of the model. Here what no client of a round trained, by parameter or by
element, stays as it is, its m and v included: momentum of earlier rounds does not move it, and does
not fade. Statistics of batch normalisation are averaged, whatever the optimiser (sgd: times eta).
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Optional

from tff_partial.core import checks
from tff_partial.core.lazy import tf
from tff_partial.core.types import Structure, Tensor

# The learning rate where none is given.
DEFAULT_RATES = {"sgd": 1.0, "fedavgm": 1.0, "fedadam": 0.01, "fedyogi": 0.01}
NAMES = tuple(DEFAULT_RATES)


@dataclasses.dataclass(frozen=True)
class ServerOptimizer:
    """What the server makes of the mean update.

    Attributes:
      name: `sgd`, `fedavgm`, `fedadam` or `fedyogi`.
      learning_rate: eta; by default 1 for sgd and fedavgm, 0.01 for the others.
      beta_1: Momentum.
      beta_2: Decay of the mean of squares.
      tau: What is added to its root: the smaller, the more adaptive.
    """

    name: str = "sgd"
    learning_rate: Optional[float] = None
    beta_1: float = 0.9
    beta_2: float = 0.99
    tau: float = 1e-3

    def __post_init__(self) -> None:
        checks.one_of("server_optimizer", self.name, NAMES)
        for name, is_valid, limits in (
            ("learning_rate", 0 < self.rate <= checks.LARGEST, "a positive float32"),
            ("beta_1", 0 <= self.beta_1 < 1, "in [0, 1)"),
            ("beta_2", 0 <= self.beta_2 < 1, "in [0, 1)"),
            ("tau", 0 < self.tau <= checks.LARGEST, "a positive float32"),
        ):
            if not is_valid:
                value = getattr(self, name)
                raise ValueError(f"server_{name} must be {limits}. Received: server_{name}={value}")

    @property
    def rate(self) -> float:
        """eta."""
        given = self.learning_rate
        return DEFAULT_RATES[self.name] if given is None else given

    @property
    def is_sum(self) -> bool:
        """Whether the server adds the mean as it is."""
        return self.name == "sgd" and self.rate == 1.0

    def check_sum(self, reason: str) -> None:
        """Raise a ValueError unless the server adds the mean, where an algorithm needs it so."""
        if not self.is_sum:
            raise ValueError(
                f"server_optimizer must be sgd with learning rate 1, {reason}. "
                f"Received: server_optimizer={self.name!r}, server_learning_rate={self.rate:g}"
            )

    def initialize(self, parameters: Sequence[Tensor]) -> Structure:
        """Return m and v of the first round, as far as the optimiser has them."""
        state = collections.OrderedDict()
        if self.name != "sgd":
            state["m"] = [tf.zeros_like(w) for w in parameters]
        if self.name in ("fedadam", "fedyogi"):
            state["v"] = [tf.fill(tf.shape(w), self.tau**2) for w in parameters]
        return state

    def step(self, state: Structure, updates: Sequence[Tensor]) -> tuple[Structure, list[Tensor]]:
        """Return the new state and what is added to each parameter."""
        if self.name == "sgd":
            return state, [self.rate * d for d in updates]
        carried = 1.0 if self.name == "fedavgm" else 1 - self.beta_1
        new = collections.OrderedDict(
            m=[self.beta_1 * m + carried * d for m, d in zip(state["m"], updates)]
        )
        if self.name == "fedavgm":
            return new, [self.rate * m for m in new["m"]]
        new["v"] = [self._second_moment(v, tf.square(d)) for v, d in zip(state["v"], updates)]
        roots = [tf.sqrt(v) + self.tau for v in new["v"]]
        return new, [self.rate * m / root for m, root in zip(new["m"], roots)]

    def _second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        share = 1 - self.beta_2
        if self.name == "fedadam":
            return self.beta_2 * v + share * square
        return v - share * square * tf.sign(v - square)


def where_trained(trained: Sequence[Tensor], new: Structure, old: Structure) -> Structure:
    """Return new values where clients trained, else the old ones.

    Args:
      trained: For each parameter whether, or at which of its elements, it was trained.
      new, old: A list with an entry for each parameter, or a dictionary of such lists.
    """
    if isinstance(new, dict):
        return collections.OrderedDict(
            (key, where_trained(trained, new[key], old[key])) for key in new
        )
    return [tf.where(which, a, b) for which, a, b in zip(trained, new, old)]
