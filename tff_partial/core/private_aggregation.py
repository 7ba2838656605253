"""Differentially private aggregation of partial updates, by TFF's `DifferentiallyPrivateFactory`.

With d_k the update of client k, all that it trained as one vector and 0 elsewhere:

    result_j = (sum over k of clip(d_k)_j + N(0, (z C)^2)) / max(E_j, 1),    0 where E_j = 0

    E_j = sum over tiers t of n_t * h_tj

n_t is the expected number of clients of tier t in a round, h_tj how likely such a client holds
element j: 0 or 1, or the share of channels that are kept where they are drawn. Both are known
without looking at clients, so that nothing but the noised sum depends on who took part. E_j is at
least 1, so that the server never goes further than a client's clipped update.

Statistics of batch normalisation are part of the vector, clipped and noised like parameters. A
client whose update is not finite, or that has no examples, counts as 0. All contributors count the
same. The noise is not that of the run's seed: whoever knows that could subtract it.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from typing import ClassVar, Optional

import numpy as np

from tff_partial.core import floats_only
from tff_partial.core.aggregation import MEAN, TRAINED
from tff_partial.core.aggregators import Aggregator, Held, check_positive
from tff_partial.core.lazy import tf, tff
from tff_partial.core.types import Federated, Structure, Tensor, TffType

# Of the expected clients: the noise of the count of clipped ones, in adaptive clipping.
_COUNT_NOISE = 0.05


@dataclasses.dataclass(frozen=True)
class Private(Aggregator):
    """A noised sum of clipped updates over public denominators.

    Attributes:
      noise_multiplier: Standard deviation of the noise over the norm that updates are clipped to
        (z); 0 for none.
      contributors: Expected number of clients of each tier in a round (n_t).
      clip: That norm (C); by default TFF estimates the median of the clients' norms, privately.
    """

    noise_multiplier: float
    contributors: tuple[float, ...]
    clip: Optional[float] = None
    NAME: ClassVar[str] = "dp"
    REPORTS_TRAINING: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.noise_multiplier < math.inf:
            raise ValueError(
                "dp_noise_multiplier must be finite and not negative. "
                f"Received: dp_noise_multiplier={self.noise_multiplier}"
            )
        check_positive("dp_clip", self.clip)
        object.__setattr__(self, "contributors", tuple(map(float, self.contributors)))
        if not self.contributors or min(self.contributors) < 0 or not sum(self.contributors):
            raise ValueError(
                "contributors must be the expected number of clients of each tier. "
                f"Received: contributors={self.contributors}"
            )

    @property
    def cohort(self) -> float:
        """Expected number of clients in a round."""
        return sum(self.contributors)

    def mean(
        self, says_who: bool = False, held: Optional[Held] = None
    ) -> tff.aggregators.WeightedAggregationFactory:
        if held is None:
            raise ValueError("aggregation must not be dp here: what clients train is not public")
        return PublicMean(self, held, says_who)

    def check_weighting(self, weighting: str) -> None:
        if weighting != "uniform":
            raise ValueError(
                "weighting must be uniform with aggregation='dp', whose denominators are public. "
                f"Received: weighting={weighting!r}"
            )

    def check_tiers(self, tiers: int) -> None:
        """Raise a ValueError unless there is a number of contributors for each tier."""
        if len(self.contributors) != tiers:
            raise ValueError(
                f"contributors must have an entry for each of {tiers} tiers. "
                f"Received: contributors={self.contributors}"
            )

    def noised_mean(self) -> tff.aggregators.UnweightedAggregationFactory:
        """Return TFF's factory: (sum of clipped values + noise) / cohort."""
        factory, z = tff.aggregators.DifferentiallyPrivateFactory, float(self.noise_multiplier)
        if self.clip is not None:
            return factory.gaussian_fixed(z, self.cohort, float(self.clip))
        count_noise = max(_COUNT_NOISE * self.cohort, z) if z else 0.0
        return factory.gaussian_adaptive(z, self.cohort, clipped_count_stddev=count_noise)

    def denominators(self, held: Held, round_num: Tensor) -> Structure:
        """Return max(E_j, 1), or 0 where it is 0, as weights."""
        parts = [
            tf.nest.map_structure(lambda h, n=n: n * tf.cast(h, tf.float32), held(t, round_num))
            for t, n in enumerate(self.contributors)
        ]
        expected = [sum(part) for part in zip(*map(tf.nest.flatten, parts))]
        at_least_one = [tf.where(e > 0, tf.maximum(e, 1.0), 0.0) for e in expected]
        return tf.nest.pack_sequence_as(parts[0], at_least_one)


class PublicMean:
    """A weighted aggregation factory; of the weights only where they are positive counts."""

    def __init__(self, private: Private, held: Held, says_who: bool = False) -> None:
        # A virtual subclass, because TFF is imported late (core/lazy.py).
        tff.aggregators.WeightedAggregationFactory.register(PublicMean)
        self._private, self._held, self._says_who = private, held, says_who

    def create(self, value_type: TffType, weight_type: TffType) -> tff.templates.AggregationProcess:
        """Return the aggregation process; its state has the number of the round."""
        specs: list[Structure] = []

        @tff.tensorflow.computation(value_type, weight_type)
        def contribute(value: Structure, weight: Structure) -> list[Tensor]:
            specs.append(floats_only.spec_of(value))
            values, weights = floats_only.floats(value, weight)
            is_finite = floats_only.all_finite([*values, *weights])
            held = [tf.logical_and(is_finite, w > 0) for w in weights]
            held *= len(values) if len(held) == 1 else 1
            return [tf.where(h, v, tf.zeros_like(v)) for h, v in zip(held, values)]

        noised = self._private.noised_mean().create(contribute.type_signature.result)

        @tff.tensorflow.computation
        def divide(means: list[Tensor], round_num: Tensor) -> tuple[Structure, Tensor]:
            denominators = self._private.denominators(self._held, round_num)
            expected = floats_only.float_weights(specs[0], denominators)
            shares = [self._private.cohort * tf.math.divide_no_nan(1.0, e) for e in expected]
            mean = floats_only.pack(specs[0], [m * s for m, s in zip(means, shares)])
            return self._result(mean, specs[0], expected), round_num + 1

        initialize = tff.federated_computation(
            lambda: tff.federated_zip(
                (noised.initialize(), tff.federated_value(np.int32(0), tff.SERVER))
            )
        )

        @tff.federated_computation(
            initialize.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state: Federated, value: Federated, weight: Federated) -> Federated:
            done = noised.next(state[0], tff.federated_map(contribute, (value, weight)))
            result, round_num = tff.federated_map(divide, (done.result, state[1]))
            new_state = tff.federated_zip((done.state, round_num))
            return tff.templates.MeasuredProcessOutput(new_state, result, done.measurements)

        return tff.templates.AggregationProcess(initialize, next_fn)

    def _result(self, mean: Structure, spec: Structure, expected: list[Tensor]) -> Structure:
        if not self._says_who:
            return mean
        trained = floats_only.pack_trained(spec, [e > 0 for e in expected])
        return collections.OrderedDict({MEAN: mean, TRAINED: trained})
