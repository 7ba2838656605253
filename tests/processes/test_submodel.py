"""Rounds of narrower models: absent classes, what nobody holds, and whole models."""

import dataclasses

import numpy as np
import pytest

from tests import tiny
from tests.algorithms.submodel_rounds import LOCAL
from tests.references import submodels as reference
from tests.submodels.nets import NETS, as_dict, client_data


@pytest.mark.parametrize("algo", ["heterofl", "feddropout"])
def test_classes_that_a_client_lacks_are_left_out_even_if_their_logits_are_not(algo):
    """As in HeteroFL's code; Federated Dropout does neither."""
    data, (net, spec) = client_data("dense"), NETS["dense"]
    process = tiny.build(algo, LOCAL, spec, tiers=("1",), masked_logits=False)
    rounds = tiny.Rounds(process, data)
    weights = as_dict("dense", rounds.weights())
    kept = [np.arange(m) for m in reference.widths(weights)]
    clients = [
        {"x": x, "y": y, "kept": kept, "batches": tiny.batches(record, 0, LOCAL)}
        for (x, y), record in zip(data, rounds.records)
    ]
    expected = reference.federated_round(
        net,
        weights,
        clients,
        masked_rows=algo == "heterofl",
        lr=LOCAL.learning_rate,
        momentum=LOCAL.momentum,
        weight_decay=LOCAL.weight_decay,
        clip_norm=LOCAL.clip_norm,
    )
    rounds.next()
    for name, value in as_dict("dense", rounds.weights()).items():
        np.testing.assert_allclose(value, expected[name], atol=1e-5, err_msg=name)


def test_what_nobody_holds_does_not_move():
    process = tiny.build("heterofl", LOCAL, NETS["conv"][1], tiers=("1/2", "1/4"))
    rounds = tiny.Rounds(process, client_data("conv"), tiers=2)
    before = as_dict("conv", rounds.weights())
    rounds.next()
    after = as_dict("conv", rounds.weights())
    np.testing.assert_array_equal(after["conv1/kernel"][..., 3:], before["conv1/kernel"][..., 3:])
    np.testing.assert_array_equal(
        after["conv2/kernel"][..., 3:, :], before["conv2/kernel"][..., 3:, :]
    )
    assert (after["conv2/kernel"][..., :3, :3] != before["conv2/kernel"][..., :3, :3]).all()


def test_fedavg_and_a_whole_model_are_equal_bit_for_bit():
    spec = dataclasses.replace(NETS["conv"][1])
    found = []
    for name, params in (
        ("fedavg", {}),
        ("heterofl", {"tiers": ("1",), "masked_logits": False, "masked_rows": False}),
        ("fedrolex", {"tiers": ("1",), "masked_logits": False, "masked_rows": False}),
        ("feddropout", {"tiers": ("1",), "masked_logits": False}),
        ("feddse", {"tiers": ("1",), "masked_logits": False, "masked_rows": False}),
        ("fjord", {"tiers": ("1",)}),
        ("width_reduction", {"tiers": ("1",)}),
    ):
        rounds = tiny.Rounds(
            tiny.build(name, LOCAL, spec, weighting="uniform", **params), client_data("conv")
        )
        rounds.next()
        rounds.next()
        found.append(rounds.weights())
    for other in found[1:]:
        for a, b in zip(found[0], other):
            np.testing.assert_array_equal(a, b)
