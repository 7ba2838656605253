"""Round -> value; a number is a constant schedule.

    value(r) = initial * decay**r                    for r before the first change
             = change value * decay**(r - change)    from a change on
    times min(1, (r + step) / warm_up)

Written as text: `0.1` (constant), `0.4,800:0.04,900:0.004` (0.04 from round 800 on),
`0.1*0.998` (decayed by 0.998 every round), `0.4~5,800:0.04` (rising to 0.4 over the first 5
rounds). Rounds count from 0. Algorithms that ask for the value of each of the K steps of a round
do so at round + k/K, step = 1/K: decay, changes and warm-up may lie within a round (`0.4~6.1`).

A function of the round, a float32 scalar, is a schedule too; `my_module:fn` names one.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Union

from tff_partial.core import checks, own_code, sessions
from tff_partial.core.lazy import tf
from tff_partial.core.types import Tensor

# The smallest normal float32; a smaller learning rate is 0 on some processors.
SMALLEST = 2.0**-126


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A positive value for every round.

    Attributes:
      initial: The value in round 0.
      changes: Pairs (round, value), rounds ascending: the value from that round on.
      decay: Factor applied every round since the last change.
      warm_up: Rounds over which the value rises in proportion; 0 for none.
    """

    initial: float
    changes: tuple[tuple[float, float], ...] = ()
    decay: float = 1.0
    warm_up: float = 0.0

    def __post_init__(self) -> None:
        values = [self.initial, self.decay, *(value for _, value in self.changes)]
        if not all(SMALLEST <= value <= checks.LARGEST for value in values):
            raise ValueError(f"a schedule must have positive float32 values. Received: {self}")
        if not 0 <= self.warm_up <= checks.LARGEST:
            raise ValueError(f"a schedule's warm-up must not be negative. Received: {self}")
        rounds = [0.0, *(at for at, _ in self.changes)]
        if any(later <= earlier for earlier, later in zip(rounds, rounds[1:])):
            raise ValueError(f"a schedule's rounds must be ascending. Received: {self}")

    def check(self, rounds: int) -> None:
        """Raise a ValueError unless the values of the first rounds are positive numbers."""

    def __call__(self, round_num: Union[Tensor, float], step: float = 1.0) -> Tensor:
        """Return the value in a round, a float32 scalar."""
        start, value = tf.constant(0.0), tf.constant(self.initial, tf.float32)
        round_num = tf.cast(round_num, tf.float32)
        for at, changed in self.changes:
            start = tf.where(round_num >= at, float(at), start)
            value = tf.where(round_num >= at, changed, value)
        if self.warm_up:
            value *= tf.minimum(1.0, (round_num + step) / self.warm_up)
        return value * self.decay ** (round_num - start)


@dataclasses.dataclass(frozen=True)
class FunctionSchedule(Schedule):
    """The values of a user's function of the round.

    Attributes:
      function: (Round, a float32 scalar) -> value. AutoGraph converts it: `if` is allowed.
    """

    initial: float = 1.0
    function: Callable[[Tensor], Union[Tensor, float]] = lambda round_num: 1.0

    def __post_init__(self) -> None:
        self.check(1)

    def check(self, rounds: int) -> None:
        """Raise a ValueError unless the values of the first rounds are positive numbers."""
        with tf.Graph().as_default(), sessions.create() as session:
            numbers = tf.range(rounds, dtype=tf.float32)
            values = session.run(tf.map_fn(self, numbers))
        for round_num, value in enumerate(values):
            if not SMALLEST <= value <= checks.LARGEST:
                name = own_code.short_name(self.function)
                raise ValueError(
                    "a schedule must have positive float32 values. "
                    f"Received: {name}, which returns {value:g} in round {round_num}"
                )

    def __call__(self, round_num: Union[Tensor, float], step: float = 1.0) -> Tensor:
        """Return the value in a round, a float32 scalar."""
        value = tf.function(self.function)(tf.cast(round_num, tf.float32))
        try:
            return tf.ensure_shape(tf.cast(value, tf.float32), [])
        except (TypeError, ValueError) as error:
            name = own_code.short_name(self.function)
            raise ValueError(
                f"a schedule must return a number. Received: {name}, which returns {value}"
            ) from error


ScheduleLike = Union[Schedule, float, str, Callable[[Tensor], Union[Tensor, float]]]


def create(value: ScheduleLike) -> Schedule:
    """Return a schedule from a schedule, a number, its text form, a function or its name.

    Raises:
      ValueError: If the text is not a schedule, or a value is not positive.
    """
    if isinstance(value, Schedule):
        return value
    if own_code.is_name(value):
        value = own_code.load("learning_rate", str(value))
    if callable(value):
        return FunctionSchedule(function=value)
    try:
        first, *changes = str(value).split(",")
        first, _, warm_up = first.partition("~")
        initial, _, decay = first.partition("*")
        pairs = tuple((float(at), float(to)) for at, to in (c.split(":") for c in changes))
        return Schedule(float(initial), pairs, float(decay or 1), float(warm_up or 0))
    except ValueError as error:
        raise ValueError(
            "a schedule must be a positive number, 'initial*decay' or 'initial,round:value,...', "
            "the first with '~warm_up' if it rises. "
            f"Received: {value!r}"
        ) from error
