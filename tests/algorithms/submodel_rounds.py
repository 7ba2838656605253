"""Tests that algorithms share whose clients train narrower models, against a NumPy reference."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests import tiny
from tests.references import submodels as reference
from tests.submodels.nets import NETS, as_dict, client_data
from tff_partial import tiers
from tff_partial.core import client_data as records
from tff_partial.core.local_training import LocalTraining
from tff_partial.submodels import groups as channel_groups
from tff_partial.submodels import selection

TIERS = ("1", "1/2", "1/4")
RATES = [tier.rate for tier in tiers.as_tiers(TIERS, are_rates=True)]
LOCAL = LocalTraining(
    steps=4, batch_size=5, learning_rate=0.2, momentum=0.9, weight_decay=0.01, clip_norm=1.0
)


def element(record, round_num):
    return records.in_round(record.get_single_element(), round_num)


def kept_by(algo, net, weights, record, round_num, rate, rounding):
    """The channels of a client, by the reference's rules; random ones as the library draws them."""
    full = reference.widths(weights)
    sizes = [reference.size(rate, m, rounding) for m in full]
    if algo == "fedrolex":
        return [reference.rolling(k, m, round_num) for k, m in zip(sizes, full)]
    if algo == "feddse":
        values = reference.scores(NETS[net][0], weights, record.get_single_element()["x"].numpy())
        return [reference.top_k(v, k) for v, k in zip(values, sizes)]
    if algo == "fiarse":
        return [reference.top_k(v, k) for v, k in zip(reference.magnitudes(weights), sizes)]
    if algo == "feddropout":
        rule = selection.random(channel_groups.analyse(NETS[net][1]))
        request = selection.Request(sizes, None, element(record, round_num), round_num)
        return [indices.numpy() for indices in rule(request)]
    return [reference.ordered(k, m) for k, m in zip(sizes, full)]


def fjord_rates(record, round_num, rate):
    """The rate of each local step, as the library draws them among those that fit."""
    fitting = [r for r in RATES if r <= rate]
    seed = element(record, round_num)["seed"]
    fold_in = tf.random.experimental.stateless_fold_in
    seeds = [fold_in(seed + tf.constant([step + 1, 0]), 0xF) for step in range(LOCAL.steps)]
    drawn = [tf.random.stateless_uniform([], s, 0, len(fitting), tf.int32) for s in seeds]
    return [fitting[int(i)] for i in drawn]


def check_against_numpy(algo, net, weighting, local, outputs_only=False, **params):
    is_hetero = algo not in ("width_reduction", "fjord", "fiarse")
    rounding = "floor" if algo == "width_reduction" else "ceil"
    data = client_data(net)
    process = tiny.build(algo, local, NETS[net][1], tiers=TIERS, weighting=weighting, **params)
    rounds = tiny.Rounds(process, data, tiers=3)
    expected = as_dict(net, rounds.weights())
    for round_num in range(3):
        clients = []
        for (x, y), record, rate in zip(data, rounds.records, RATES):
            kept = kept_by(algo, net, expected, record, round_num, rate, rounding)
            client = {"x": x, "y": y, "kept": kept, "rate": rate}
            client["batches"] = tiny.batches(record, round_num, LOCAL)
            if algo == "fjord":
                rates = fjord_rates(record, round_num, rate)
                client["steps"] = reference.fjord_steps(reference.widths(expected), rates)
            clients.append(client)
        expected = reference.federated_round(
            NETS[net][0],
            expected,
            clients,
            weighting,
            lr=local.learning_rate,
            momentum=local.momentum,
            weight_decay=local.weight_decay,
            weight_decay_on=local.weight_decay_on,
            clip_norm=local.clip_norm,
            scale=is_hetero,
            masked=is_hetero,
            outputs_only=outputs_only,
        )
        rounds.next()
        for name, value in as_dict(net, rounds.weights()).items():
            np.testing.assert_allclose(value, expected[name], atol=1e-5, err_msg=name)


def check_with_weight_decay_as_in_pytorch(algo):
    """All parameters decay, after clipping: both rules differ by far more than the tolerance."""
    local = dataclasses.replace(LOCAL, weight_decay=0.2, weight_decay_on="all", clip_norm=0.3)
    check_against_numpy(algo, "conv", "uniform", local)


class Rounds:
    """Three clients at three rates; a test file's subclass names the algorithm."""

    name: str
    weighting: str

    @pytest.mark.parametrize("net", ["dense", "conv"])
    def test_equals_numpy_with_three_clients_at_three_rates(self, net):
        check_against_numpy(self.name, net, self.weighting, LOCAL)
