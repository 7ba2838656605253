"""The costs of clients: the tables of EmbracingFL and FedPMT, and small models by hand."""

import pytest

from tests import tiny
from tests.costs.specs import cut_of, spec
from tff_partial import costs
from tff_partial.core.model import Cut
from tff_partial.costs.blocks import measure

# EmbracingFL's tables.


@pytest.mark.parametrize(
    ("name", "tier", "expected"),
    [
        ("resnet20", "strong", (272_762, 6_947_136, 1.00)),
        ("resnet20", "moderate", (257_994, 2_752_832, 0.42)),
        ("resnet20", "weak", (206_346, 917_824, 0.16)),
        ("femnist_cnn", "strong", (6_603_710, 39_742, 1.00)),
        ("femnist_cnn", "moderate", (6_551_614, 2_110, 0.99)),
        ("femnist_cnn", "weak", (127_038, 62, 0.02)),
        ("bilstm", "strong", (3_611_137, 1_310_720, 1.00)),
        ("bilstm", "moderate", (1_051_137, 1_310_720, 0.48)),
        ("bilstm", "weak", (1_051_137, 655_360, 0.35)),
    ],
)
def test_embracingfl_table_1(name, tier, expected):
    model = spec(name)
    # Another batch size than the table's: the models say at which theirs is computed.
    cut = cut_of(tier, model, batch_size=5)
    client = costs.recorded_suffix(model, cut, batch_size=5)
    activations = client.activations * model.capacity_batch
    assert (client.parameters, activations, round(client.capacity, 2)) == expected


@pytest.mark.parametrize(
    ("width", "expected"),
    [(0.45, (52_874, 3_039_552, 0.43)), (0.2, (10_006, 1_302_848, 0.18))],
)
def test_embracingfl_table_10(width, expected):
    narrow, full = (costs.whole(m, 32) for m in (spec("resnet20", width), spec("resnet20")))
    share = (narrow.parameters + 32 * narrow.activations) / (272_762 + 32 * full.activations)
    assert (narrow.parameters, 32 * narrow.activations, round(share, 2)) == expected


# FedPMT's table II.


def step_operations(name, removed, batch_size):
    client = costs.backprop_suffix(spec(name), Cut(removed), batch_size)
    return client.operations(steps=1, batch_size=batch_size, examples=0)


def test_fedpmt_table_2_fcnn():
    figures = [step_operations("fedpmt_fcnn", removed, 12) for removed in (3, 2, 1)]
    assert figures == [6_473_760, 7_496_160, 9_779_760]
    assert step_operations("fedpmt_fcnn", 0, 12) == 15_301_360 == 15_305_968 - 12 * (784 - 400)


def test_fedpmt_table_2_cnn_mnist_differs_by_the_papers_slips():
    conv1, conv2, activation_functions = 25 * 8 * 24**2, 8 * 25 * 16 * 8**2, 128 + 10
    paper = {3: 745_456, 2: 1_188_336, 1: 1_597_936, 0: 1_828_336}
    for removed, figure in paper.items():
        # It counts convolutions once instead of for each example, and no activation functions.
        convolutions = conv1 * (3 if removed < 1 else 1) + conv2 * (3 if removed < 2 else 1)
        slips = 11 * convolutions + 12 * activation_functions
        assert step_operations("fedpmt_cnn_mnist", removed, 12) == figure + slips


def test_fedpmt_table_2_cnn_cifar10_differs_by_the_papers_slips():
    conv1, conv2, wrong_conv2 = 3 * 25 * 16 * 28**2, 16 * 25 * 32 * 10**2, 16 * 25 * 20 * 10**2
    paper = {4: 12_864_200, 3: 16_077_200, 2: 24_587_200, 1: 26_187_200, 0: 28_068_800}
    for removed, figure in paper.items():
        # As above; conv2 with 20 filters, 10 neurons after the first dense layer, and 3,000.
        slips = (20 * conv1 - conv1) * (3 if removed < 1 else 1)
        slips += (20 * conv2 - wrong_conv2) * (3 if removed < 2 else 1)
        slips += 20 * (500 + 300 + 10)
        slips += 3_000 if removed < 4 else 0
        slips += 20 * 500 * (300 - 10) if removed < 3 else 0
        assert step_operations("fedpmt_cnn_cifar10", removed, 20) == figure + slips


def test_recorded_and_back_propagated_suffix():
    model, cut = tiny.spec(), Cut(1)
    recorded, stopped = (f(model, cut, 2) for f in (costs.recorded_suffix, costs.backprop_suffix))
    assert (recorded.record, recorded.forward, recorded.backward, recorded.update) == (
        24,
        15,
        18,
        12,
    )
    assert (stopped.record, stopped.forward, stopped.backward, stopped.update) == (0, 39, 18, 12)
    assert (recorded.bytes_down, recorded.bytes_up) == (4 * 39, 4 * 15)
    assert recorded.capacity == stopped.capacity == (15 + 2 * 3) / (39 + 2 * 7)
    assert recorded.operations(steps=3, batch_size=2, examples=7) == 24 * 7 + 3 * (2 * 33 + 12)
    assert costs.recorded_suffix(model, Cut(0), 2) == costs.whole(model, 2)


def test_half_of_the_words():
    model = spec("bilstm")
    lstm, classifier = measure(model)[1:]
    half = costs.recorded_suffix(model, Cut(1, half=True), 1)
    # The first half of the words, in the forward one of two directions.
    assert 4 * half.record == lstm.forward
    assert half.forward == lstm.forward // 2 + classifier.forward
    assert half.backward == lstm.backward // 2 + classifier.backward
    whole_words = costs.backprop_suffix(model, Cut(1), 1)
    assert costs.backprop_suffix(model, Cut(1, half=True), 1) == whole_words


def test_prefix_and_channels():
    model = tiny.spec()
    first = costs.prefix(model, 1, 2)
    assert (first.parameters, first.activations, first.forward) == (24, 7, 39)
    # The gradient of the hidden layer, and the error signal of both.
    assert (first.backward, first.update) == (4 * 5 + (4 + 4 * 3) + 2 * 3, 20)
    assert (first.bytes_down, first.bytes_up) == (4 * 39, 4 * 24)
    assert costs.prefix(model, 0, 2) == costs.whole(model, 2) == costs.channels(model, 1.0, 2)
    # Two of the hidden layer's four channels, and the last layer whole.
    assert costs.channels(model, 1 / 3, 2).bytes_up == 4 * (2 * 5 + 2 + 15)


# FedPart's groups.


def test_a_group_is_trained_through_the_blocks_after_it():
    model = spec("fedpmt_fcnn")
    blocks, first = measure(model), costs.between(model, 0, 1, 12)
    assert first.parameters == blocks[0].parameters
    assert first.backward == blocks[0].backward + sum(b.error for b in blocks[1:])
    assert first.forward == sum(b.forward for b in blocks)
    assert first.bytes_up == 4 * blocks[0].parameters
    last = costs.between(model, len(blocks) - 1, len(blocks), 12)
    assert last == costs.backprop_suffix(model, Cut(len(blocks) - 1), 12)
    assert first.capacity > last.capacity


def test_the_mean_of_rounds_has_the_largest_memory():
    model = spec("fedpmt_fcnn")
    whole, last = costs.whole(model, 12), costs.backprop_suffix(model, Cut(3), 12)
    found = costs.mean([whole, last, last, last])
    assert found.bytes_up == round((whole.bytes_up + 3 * last.bytes_up) / 4)
    assert (found.capacity, found.parameters) == (1, whole.parameters)
