"""How the server combines what clients send: `aggregator=` of every algorithm's `build`.

| aggregator | what the server computes |
|---|---|
| `Aggregator()` | the mean over the contributors of each variable (`aggregation`) |
| `Robust()` | the same of updates that TFF has zeroed or clipped, each as one vector |
| `Secure()` | the same through TFF's secure sum: the server sees sums, no client's update |
| `Private()` | TFF's differentially private sum over public denominators (`private_aggregation`) |

`Given` takes a weighted aggregation factory of TFF's or of your own. docs/privacy.md says what is
protected against whom.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
from collections.abc import Iterator, Mapping
from typing import Callable, ClassVar, Optional, Union

from typing_extensions import TypeAlias

from tff_partial.core import checks, floats_only
from tff_partial.core.aggregation import ContributorMean
from tff_partial.core.floats_only import FloatsOnly
from tff_partial.core.lazy import tf, tff
from tff_partial.core.types import Federated, Structure, Tensor, TffType

NAMES = ("mean", "robust", "secure", "dp")
Held = Callable[[int, Tensor], Structure]
"""(A tier, the round) -> how likely its clients hold each variable or element, as weights."""

# Of a number of examples, the weight of a client in the mean.
_LARGEST_WEIGHT = 2**24


@dataclasses.dataclass(frozen=True)
class Aggregator:
    """The mean over the contributors of each variable."""

    NAME: ClassVar[str] = "mean"
    REPORTS_TRAINING: ClassVar[bool] = True  # whether metrics of training reach the server

    def mean(
        self, says_who: bool = False, held: Optional[Held] = None
    ) -> tff.aggregators.WeightedAggregationFactory:
        """Return the weighted aggregation factory of the clients' updates.

        Args:
          says_who: See `ContributorMean`.
          held: What clients of each tier train, known without looking at them.
        """
        return ContributorMean(says_who=says_who)

    def sum(self, values: Federated) -> Federated:
        """Return the sum of small numbers of clients, such as the metrics of training."""
        return tff.federated_sum(values)

    def check_weighting(self, weighting: str) -> None:
        """Raise a ValueError if clients cannot be weighted so."""

    def check_tiers(self, tiers: int) -> None:
        """Raise a ValueError if it cannot be of so many tiers."""

    def check(self, refused: Mapping[str, str]) -> None:
        """Raise a ValueError if its name is among those refused, with the reason."""
        if self.NAME in refused:
            raise ValueError(
                f"aggregation must not be {self.NAME} here: {refused[self.NAME]}. "
                f"Received: aggregation={self.NAME!r}"
            )


MEAN = Aggregator()
AggregatorLike: TypeAlias = "Union[Aggregator, tff.aggregators.WeightedAggregationFactory, None]"


def as_aggregator(aggregator: AggregatorLike) -> Aggregator:
    """Return an aggregator that may be given as a factory of TFF's; the mean for None."""
    if aggregator is None:
        return MEAN
    return aggregator if isinstance(aggregator, Aggregator) else Given(aggregator)


@dataclasses.dataclass(frozen=True)
class Given(Aggregator):
    """A weighted aggregation factory of TFF's or of your own.

    Attributes:
      factory: It takes updates and weights as algorithms have them: a scalar for the whole update,
        a scalar for each variable, or an array for each (`aggregation`).
    """

    factory: Optional[tff.aggregators.WeightedAggregationFactory] = None
    NAME: ClassVar[str] = "given"

    def mean(
        self, says_who: bool = False, held: Optional[Held] = None
    ) -> tff.aggregators.WeightedAggregationFactory:
        return self.factory


@dataclasses.dataclass(frozen=True)
class Robust(Aggregator):
    """Zeroing, then clipping, by TFF; then the mean over contributors.

    A client's whole update is one vector. It is zeroed if an element is far beyond what clients
    sent so far (TFF's adaptive zeroing), or is not finite; then it is clipped to a norm. A client's
    weight in the mean stays as it is.

    Attributes:
      clip: The norm; by default the 0.8 quantile of the clients' norms, as TFF estimates it.
    """

    clip: Optional[float] = None
    NAME: ClassVar[str] = "robust"

    def __post_init__(self) -> None:
        check_positive("robust_clip", self.clip)

    def mean(
        self, says_who: bool = False, held: Optional[Held] = None
    ) -> tff.aggregators.WeightedAggregationFactory:
        # The estimates are those of tff.learning.robust_aggregator, which has them to itself.
        quantile = tff.aggregators.PrivateQuantileEstimationProcess.no_noise
        largest = quantile(10.0, 0.98, math.log(10.0), multiplier=2.0, increment=1.0)
        norm = quantile(1.0, 0.8, 0.2) if self.clip is None else float(self.clip)
        clipped = tff.aggregators.clipping_factory(norm, ContributorMean(says_who=says_who))
        return FloatsOnly(tff.aggregators.zeroing_factory(largest, clipped))


@dataclasses.dataclass(frozen=True)
class Secure(Aggregator):
    """The mean over contributors through TFF's secure sum, metrics of training included.

    Numbers of examples are summed exactly. Other numbers are rounded to 2 * bound / 2^32 and cut
    off at the bound, times the client's weight. A client whose update is not finite counts for
    nothing, as NaN cannot be encoded.

    Attributes:
      bound: The largest absolute value of an element of an update, times its weight.
    """

    bound: float = 1000.0
    NAME: ClassVar[str] = "secure"

    def __post_init__(self) -> None:
        check_positive("secure_bound", self.bound)

    def mean(
        self, says_who: bool = False, held: Optional[Held] = None
    ) -> tff.aggregators.WeightedAggregationFactory:
        inner = ContributorMean(_secure_floats(self.bound), _secure_counts(), says_who)
        return FloatsOnly(inner, drops=True)

    def sum(self, values: Federated) -> Federated:
        process = _secure_floats(_LARGEST_WEIGHT).create(values.type_signature.member)
        return process.next(process.initialize(), values).result


class SecureSum:
    """Sums a structure as one vector in one secure sum; an unweighted aggregation factory.

    TFF's own takes each tensor by itself, with assertions for each, and much longer to trace.
    """

    def __init__(self, factory: tff.aggregators.SecureSumFactory, dtype: str) -> None:
        self._factory, self._dtype = factory, dtype

    def create(self, value_type: TffType) -> tff.templates.AggregationProcess:
        """Return the aggregation process for this member type."""
        specs: list[Structure] = []

        @tff.tensorflow.computation(value_type)
        def join(value: Structure) -> Tensor:
            specs.append(floats_only.spec_of(value))
            flat = [tf.reshape(v, [-1]) for v in tf.nest.flatten(value)]
            return tf.cast(tf.concat(flat, 0), self._dtype)

        @tff.tensorflow.computation
        def split(total: Tensor) -> Structure:
            each = tf.nest.flatten(specs[0])
            parts = tf.split(total, [s.shape.num_elements() for s in each])
            shaped = [tf.cast(tf.reshape(v, s.shape), s.dtype) for v, s in zip(parts, each)]
            return tf.nest.pack_sequence_as(specs[0], shaped)

        with _quiet():
            inner = self._factory.create(join.type_signature.result)

        @tff.federated_computation(
            inner.initialize.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
        )
        def next_fn(state: Federated, value: Federated) -> Federated:
            done = inner.next(state, tff.federated_map(join, value))
            result = tff.federated_map(split, done.result)
            return tff.templates.MeasuredProcessOutput(done.state, result, done.measurements)

        return tff.templates.AggregationProcess(inner.initialize, next_fn)


def _secure_floats(bound: float) -> SecureSum:
    return SecureSum(tff.aggregators.SecureSumFactory(float(bound)), "float32")


def _secure_counts() -> SecureSum:
    """Numbers of examples, given as floats, are summed exactly."""
    return SecureSum(tff.aggregators.SecureSumFactory(_LARGEST_WEIGHT, 0), "int64")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    def is_other(record: logging.LogRecord) -> bool:
        return "Object was never used" not in record.getMessage()

    logger = tf.get_logger()
    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


def check_positive(name: str, value: Optional[float]) -> None:
    """Raise a ValueError unless a number is positive and a float32, or None."""
    if value is not None and not 0 < value <= checks.LARGEST:
        raise ValueError(f"{name} must be a positive float32. Received: {name}={value}")
