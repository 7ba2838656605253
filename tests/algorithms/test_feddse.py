"""FedDSE: the channels with the highest scores."""

import dataclasses

import numpy as np

from tests import tiny
from tests.algorithms import submodel_rounds
from tests.submodels.nets import NETS, client_data
from tff_partial import costs, tiers
from tff_partial.algorithms import feddse
from tff_partial.processes import submodel


class TestRounds(submodel_rounds.Rounds):
    name, weighting = "feddse", "uniform"


def test_the_server_chooses_without_the_clients_examples():
    """Two clients with the same labels and seeds but other examples get the same neurons."""
    [(x, y), *_] = client_data("dense")
    held = []
    for examples in (x, 5.0 * x[::-1] + 1.0):
        local = dataclasses.replace(submodel_rounds.LOCAL, learning_rate=1e-3)
        params = {"tiers": ("1/2",), "inference_data": "generated"}
        process = tiny.build("feddse", local, NETS["dense"][1], **params)
        rounds = tiny.Rounds(process, [(examples, y)])
        before = rounds.weights()
        rounds.next()
        held.append([a != b for a, b in zip(rounds.weights(), before)][3])
    np.testing.assert_array_equal(*held)
    assert held[0].sum() == 3


def test_costs_of_masks_and_of_a_choice_at_the_server():
    spec, half = NETS["conv"][1], tiers.create("1/2")

    def cost(**params):
        return submodel.cost(spec, feddse.Params(local=submodel_rounds.LOCAL, **params), half)

    both, outputs, chosen = cost(), cost(mask="outputs"), cost(inference_data="generated")
    whole = costs.whole(spec, submodel_rounds.LOCAL.batch_size)
    kept = 9 * (2 * 3 + 5 * 3 + 5 * 3) + 3 + 3 + 3 + 96 * 4 + 4
    assert outputs.parameters == outputs.bytes_up / 4 == kept > both.parameters
    assert outputs.activations == both.activations
    assert both.forward < outputs.forward < whole.forward
    assert (both.bytes_down, outputs.bytes_down) == (whole.bytes_down, whole.bytes_down)
    assert (chosen.bytes_down, chosen.record) == (both.bytes_up, 0)
