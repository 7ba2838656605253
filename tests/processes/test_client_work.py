"""What clients of several tiers report, and tiers that are not there."""

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tests.algorithms.layer_rounds import build, cohort


def test_accuracy_is_reported_by_tier():
    built = build("embracing")
    output = built.next(built.initialize(), cohort(tiny.client_data(), (0, 0, 2)))
    metrics = output.metrics["client_work"]
    assert np.isnan(metrics["train_accuracy_moderate"])  # an empty cell of metrics.csv
    alone = [
        built.next(built.initialize(), cohort(tiny.client_data(), (0, 0, 2))[k]).metrics
        for k in (slice(0, 2), slice(2, 3))
    ]
    strong, weak = (float(m["client_work"]["train_accuracy"]) for m in alone)
    assert float(metrics["train_accuracy_strong"]) == pytest.approx(strong)
    assert float(metrics["train_accuracy_weak"]) == pytest.approx(weak)


@pytest.mark.parametrize(("tiers", "wrong"), [(("strong", "weak"), (2, -1)), (("strong",), (1,))])
def test_a_record_of_a_tier_that_is_not_there_is_an_error(tiers, wrong):
    built = build("embracing", tiers=tiers)
    for tier in wrong:
        message = rf"tier must be from 0 to {len(tiers) - 1}\. Received: tier=.*{tier}"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            built.next(built.initialize(), cohort(tiny.client_data()[:1], (tier,)))
