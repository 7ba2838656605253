"""Which cut fits a tier, and the steps of the forward pass before it."""

import pytest
import tensorflow as tf

from tests.costs.specs import cut_of, dense, own, spec
from tff_partial import costs, tiers
from tff_partial.core.model import Cut
from tff_partial.costs.blocks import measure


def test_average_capacities_of_embracingfl_table_3():
    cases = {
        "strong:128": 1.00,
        "strong:64,moderate:64": 0.71,
        "strong:32,moderate:96": 0.57,
        "strong:16,moderate:112": 0.49,
        "strong:64,weak:64": 0.58,
        "strong:32,weak:96": 0.37,
        "strong:16,weak:112": 0.27,
        "strong:32,moderate:32,weak:64": 0.44,
        "strong:16,moderate:32,weak:80": 0.33,
        "strong:16,moderate:16,weak:96": 0.30,
    }
    model = spec("resnet20")
    for text, expected in cases.items():
        parsed = tiers.parse(text)
        cuts = [costs.cut_of(tier, model, 32) for tier in parsed]
        # The paper averages the rounded capacities of table 1, and rounds halves up.
        capacities = [round(costs.capacity(model, cut, 32), 2) for cut in cuts]
        average = costs.average_capacity([tier.count for tier in parsed], capacities)
        assert expected - 0.005 - 1e-9 <= average <= expected + 0.005 + 1e-9, text


def test_cuts_by_name_number_and_capacity():
    model = spec("fedpmt_fcnn")
    capacities = [costs.capacity(model, Cut(k), 12) for k in range(5)]
    assert capacities == sorted(capacities, reverse=True)
    assert cut_of("strong", model, 12) == cut_of("0", model, 12) == Cut(0)
    assert cut_of("moderate", model, 12) == cut_of("1", model, 12) == Cut(1)
    assert cut_of("weak", model, 12) == cut_of("0.3", model, 12) == Cut(2)
    assert capacities[2] <= 0.2 < 0.3 < capacities[1] <= 0.5
    assert cut_of(".01", model, 12) == cut_of("0.0022", model, 12) == Cut(4)
    assert costs.deepest_cut(model) == 4


def test_half_of_the_words_where_the_model_offers_it():
    assert cut_of("0.4", spec("bilstm"), 32) == Cut(1, half=True)
    assert cut_of("0.3", spec("bilstm"), 32) == Cut(2)


def test_tiers_that_nothing_fits_take_the_deepest_cut():
    # Almost all numbers are in the last block with parameters; nothing to train follows it.
    model = own(dense(1), dense(50), tf.keras.layers.ReLU)
    assert cut_of("weak", model, 1) == cut_of("moderate", model, 1) == Cut(1)
    assert costs.deepest_cut(model) == 1


@pytest.mark.parametrize(
    ("tier", "message"),
    [
        ("5", r"a tier's number of removed blocks must be at most 4 for this model\. Received: 5"),
        ("0.0001", r"a tier's capacity must be at least 0\.0022 for this model\. Received: 0.0001"),
        ("medium", r"tier must be strong, .* below 1 .*\. Received: tier='medium'"),
        ("1.5", r"tier must be strong, .* below 1 .*\. Received: tier='1.5'"),
    ],
)
def test_bad_tiers(tier, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        cut_of(tier, spec("fedpmt_fcnn"), 12)


def test_bad_cuts_of_a_model():
    too_deep = own(dense(4), dense(3), cuts={"weak": Cut(2)})
    with pytest.raises(ValueError, match="must be at most 1 for this model"):
        cut_of("weak", too_deep, 1)
    with pytest.raises(ValueError, match="must be left out of an LSTM"):
        costs.capacity(too_deep, Cut(1, half=True), 1)


def test_prefix_and_suffix_make_up_the_whole():
    model = spec("resnet20")
    for removed in range(1, 10):
        shares = (
            costs.prefix_capacity(model, removed, 32),
            costs.capacity(model, Cut(11 - removed), 32),
        )
        assert sum(shares) == pytest.approx(1)
    assert costs.prefix_capacity(model, 0, 32) == 1


@pytest.mark.parametrize(
    ("tier", "steps"), [("strong", []), ("moderate", [(0, 4)]), ("weak", [(0, 2), (2, 4), (4, 7)])]
)
def test_forward_steps_of_resnet20(tier, steps):
    model = spec("resnet20")
    cut = cut_of(tier, model, 32)
    assert costs.forward_steps(model, cut, 32) == steps
    blocks, tail = measure(model), costs.recorded_suffix(model, cut, 32)
    budget = 2 * tail.parameters + 2 * 32 * tail.activations
    for start, stop in steps:
        inside = blocks[start:stop]
        assert sum(b.parameters + 32 * b.activations for b in inside) <= budget


def test_forward_steps_hold_at_least_a_block():
    # The first dense layer of 6.4 million parameters is larger than all that a weak client trains.
    assert costs.forward_steps(spec("femnist_cnn"), Cut(3), 32) == [(0, 2), (2, 3)]
