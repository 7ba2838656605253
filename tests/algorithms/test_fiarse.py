"""FIARSE: the largest weights, by element against NumPy; by channel in small models."""

import dataclasses

import numpy as np
import pytest

from tests import tiny
from tests.algorithms.submodel_rounds import LOCAL, check_against_numpy
from tests.references import submodels as reference
from tests.submodels.nets import NETS, as_dict, client_data
from tff_partial import costs
from tff_partial.algorithms import fiarse
from tff_partial.core.private_aggregation import Private
from tff_partial.experiments import evaluations

TIERS = ("1", "1/2", "1/10")


@pytest.mark.parametrize(("net", "threshold"), [("dense", "global"), ("conv", "local")])
def test_equals_numpy_with_three_clients_that_keep_different_shares(net, threshold):
    data, local = client_data(net), dataclasses.replace(LOCAL, clip_norm=3.0)
    process = tiny.build("fiarse", local, NETS[net][1], tiers=TIERS, threshold=threshold)
    running = tiny.Rounds(process, data, tiers=3)
    expected = as_dict(net, running.weights())
    for t in range(3):
        clients = [
            {"x": x, "y": y, "rate": rate, "batches": tiny.batches(record, t, local)}
            for (x, y), record, rate in zip(data, running.records, (1.0, 0.5, 0.1))
        ]
        expected = reference.fiarse_round(
            NETS[net][0],
            expected,
            clients,
            threshold == "local",
            lr=local.learning_rate,
            momentum=local.momentum,
            weight_decay=local.weight_decay,
            clip_norm=local.clip_norm,
        )
        running.next()
        for name, value in as_dict(net, running.weights()).items():
            np.testing.assert_allclose(value, expected[name], atol=1e-5, err_msg=name)


def test_by_channel_it_equals_numpy():
    check_against_numpy("fiarse", "conv", "uniform", LOCAL, form="channel")


@pytest.mark.parametrize("threshold", ["global", "local"])
def test_what_nobody_holds_stays(threshold):
    _, spec = NETS["dense"]
    process = tiny.build("fiarse", LOCAL, spec, tiers=("1/4",), threshold=threshold)
    running = tiny.Rounds(process, client_data("dense"))
    before = as_dict("dense", running.weights())
    theta = reference.thresholds(before, 0.25, threshold == "local")
    running.next()
    for name, after in as_dict("dense", running.weights()).items():
        held = np.abs(before[name]) >= theta[name]
        np.testing.assert_array_equal(after[~held], before[name][~held])
        assert name.endswith("bias") or not np.array_equal(after[held], before[name][held])


def test_a_tier_is_tested_with_its_weights_alone():
    _, spec = NETS["dense"]
    params = fiarse.Params(LOCAL, tiers=("1", "1/4"))
    whole, quarter = evaluations.deployed_by(
        fiarse.ALGORITHM, spec, params, params.tiers, client_data("dense")[0][0]
    ).values()
    assert whole is None
    weights = spec.instantiate().weights
    kept = as_dict("dense", tiny.flat(quarter.extract(weights)))
    full = as_dict("dense", tiny.flat(weights))
    theta = reference.thresholds(full, 0.25, False)
    for name, value in full.items():
        np.testing.assert_array_equal(kept[name], value * (np.abs(value) >= theta[name]))
    by_channel = dataclasses.replace(params, form="channel")
    found = evaluations.deployed_by(
        fiarse.ALGORITHM, spec, by_channel, params.tiers, client_data("dense")[0][0]
    )
    assert [d and d.spec.weights_type.trainable[1].shape[0] for d in found.values()] == [None, 2]


def test_costs_count_held_weights_and_all_operations():
    _, spec = NETS["dense"]
    params = fiarse.Params(LOCAL, tiers=("1", "1/4"))
    quarter = params.tiers[1]
    whole, cost = costs.whole(spec, 5), fiarse.ALGORITHM.cost(spec, params, quarter)
    numbers = 5 * 7 + 7 + 7 * 6 + 6 + 6 * 4 + 4
    assert (whole.parameters, cost.parameters) == (numbers, numbers // 4)
    assert (cost.bytes_up, cost.bytes_down) == (4 * (numbers // 4), 4 * (numbers // 4) + 15)
    assert cost.operations(3, 5, 9) == whole.operations(3, 5, 9)
    activations = 5 * whole.activations
    share = (cost.parameters + activations) / (numbers + activations)
    assert cost.capacity == pytest.approx(share)


def test_what_clients_hold_is_not_known_before_the_round():
    with pytest.raises(ValueError, match="not known before the round"):
        fiarse.build(tiny.spec(), fiarse.Params(LOCAL), Private(1.0, (1.0,) * 4))
