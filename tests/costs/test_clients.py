"""The costs: the papers' figures, models of any kind, cuts, clients, time, command line."""

import functools
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import models
from tests import tiny
from tff_partial import costs, tiers
from tff_partial.algorithms import channel
from tff_partial.cli import costs as costs_command
from tff_partial.core import model as model_spec
from tff_partial.core.model import Cut
from tff_partial.costs import rounds
from tff_partial.costs.blocks import measure
from tff_partial.experiments import bundled
from tff_partial.recipes import model_costs


@functools.cache
def spec(name, width=1.0):
    architecture = models.ARCHITECTURES[name]
    return bundled.create_model(name, architecture.input_shape, architecture.num_classes, width)


def cut_of(tier, model, batch_size):
    return costs.cut_of(tiers.create(tier), model, batch_size)


def own(*layers, shape=(5,), **options):
    """A user's model; `layers` make its layers, each time in the graph that needs them."""
    return model_spec.ModelSpec(
        lambda: tf.keras.Sequential([layer() for layer in layers]), shape, **options
    )


def dense(units, name=None):
    return lambda: tf.keras.layers.Dense(units, name=name)


def test_costs_follow_pooling_that_floors_and_padding():
    """Maps of 28, 14, 7 and 3; and of 32 to 4, where padded convolutions halve them."""
    sizes = [28**2 * 64, 14**2 * 128, 7**2 * 256, 3**2 * 512, 10]
    assert [cost.activations for cost in measure(spec("four_conv_cnn"))] == sizes
    maps = {"stage2_block1": 3 * 16**2 * 128, "stage4_block1": 3 * 4**2 * 512}
    found = {cost.name: cost.activations for cost in measure(spec("preact_resnet18"))}
    assert {name: found[name] for name in maps} == maps


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


def test_fedpmt_round_times_and_deadline():
    speeds = rounds.parse_speeds("0.2,0.25,0.33,0.5,1")
    ratios = (0.46, 0.58, 0.88, 0.94, 1.0)
    devices = rounds.Devices()
    seconds = [devices.seconds(round(100 * r), 100, s) for r, s in zip(ratios, speeds)]
    np.testing.assert_allclose(seconds, [0.46 * 50, 0.58 * 40, 0.88 * 30, 0.94 * 20, 10])
    assert rounds.round_seconds(seconds, None) == (max(seconds), [True] * 5)
    assert rounds.round_seconds(seconds, 26.5) == (max(seconds), [True] * 5)
    fedavg = [devices.seconds(100, 100, s) for s in speeds]
    np.testing.assert_allclose(fedavg, [50, 40, 30, 20, 10])
    assert rounds.round_seconds(fedavg, 26.5) == (26.5, [False, False, False, True, True])
    assert rounds.round_seconds([], 26.5) == (0.0, [])


# Models of any kind.


def test_dense_blocks_by_hand():
    hidden, output = measure(tiny.spec())
    assert (hidden.name, hidden.parameters, hidden.activations) == ("hidden", 24, 4)
    assert (hidden.forward, hidden.update) == (4 * 5 + 4, 4 * 5)
    assert (hidden.error, hidden.backward) == (4 + 4 * 3, 4 + 4 * 3 + 4 * 5)
    assert (output.error, output.backward) == (2 * 3, 2 * 3 + 3 * 4)
    assert not hidden.halvable


def test_statistics_are_counted_and_skipped_over():
    hidden, norm, _ = measure(tiny.spec(batch_norm=True))
    assert (norm.parameters, norm.statistics, norm.activations, norm.forward) == (8, 8, 0, 0)
    # The normalisation is no dense layer, but what follows it is.
    assert hidden.error == 4 + 4 * 3
    client = costs.whole(tiny.spec(batch_norm=True), 2)
    assert client.bytes_up == client.bytes_down == 4 * (24 + 16 + 15)


def test_costs_are_measured_once():
    model = tiny.spec()
    assert measure(model) is measure(model)


def test_nested_and_shared_layers():
    def residual():
        x = tf.keras.Input((6, 6, 3))
        conv = tf.keras.layers.Conv2D(3, 3, padding="same", use_bias=False)
        return tf.keras.Model(x, tf.keras.layers.Add()([conv(conv(x)), x]), name="residual")

    def nested():
        inner = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(7)])
        return tf.keras.Sequential([inner, tf.keras.layers.ReLU()], name="nested")

    first, second, last = measure(own(residual, nested, dense(2, "last"), shape=(6, 6, 3)))
    assert (first.name, first.parameters) == ("residual", 81)
    assert (first.activations, first.forward) == (2 * 108, 2 * 81 * 36)
    assert (first.backward, first.error, first.update) == (4 * 81 * 36, 2 * 81 * 36, 0)
    assert (second.parameters, second.activations) == (108 * 7 + 7, 7)
    assert second.error == 7 + 7 * 2
    assert last.error == 2 * 2


def test_users_own_layers():
    class Scale(tf.keras.layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight("scale", [shape[-1]])

        def call(self, x):
            return x * self.scale

    class Twice(tf.keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.dense = tf.keras.layers.Dense(5)

        def call(self, x):
            return self.dense(self.dense(x))

    class MyDense(tf.keras.layers.Dense):
        pass

    scale, twice, last = measure(own(Scale, Twice, lambda: MyDense(3)))
    assert (scale.parameters, scale.activations, scale.forward, scale.backward) == (5, 0, 0, 0)
    assert (twice.parameters, twice.activations, twice.forward) == (30, 10, 2 * 30)
    assert (last.parameters, last.activations) == (18, 3)


def test_sequences():
    steps, features, units = 6, 4, 3
    model = own(
        lambda: tf.keras.layers.Embedding(9, features),
        lambda: tf.keras.layers.LSTM(units, return_sequences=True),
        lambda: tf.keras.layers.TimeDistributed(tf.keras.layers.Dense(2)),
        lambda: tf.keras.layers.Bidirectional(tf.keras.layers.GRU(units)),
        dense(1),
        shape=(steps,),
        input_dtype="int32",
    )
    embedding, lstm, distributed, gru, last = measure(model)
    assert (embedding.forward, embedding.backward, embedding.activations) == (0, 24, 0)
    step = 4 * units * (features + units) + 4 * units
    assert (lstm.forward, lstm.backward) == (steps * step, 2 * steps * step)
    assert (lstm.activations, lstm.first_half) == (10 * steps * units, 3 * step)
    assert (distributed.activations, distributed.forward) == (steps * 2, steps * (2 * 3 + 2))
    assert gru.forward == 4 * gru.first_half
    assert [block.halvable for block in measure(model)] == [False, True, False, True, False]
    # As in EmbracingFL's table 1, a single output is not counted.
    assert (last.parameters, last.activations) == (2 * units + 1, 0)


def test_convolutions_of_other_kinds():
    keras = tf.keras.layers
    plain, depthwise, separable = measure(
        own(
            lambda: keras.Conv2D(4, 3, strides=2, groups=2),
            lambda: keras.DepthwiseConv2D(2),
            lambda: keras.SeparableConv2D(5, 2, padding="same"),
            shape=(9, 9, 2),
        )
    )
    assert (plain.activations, plain.forward) == (4 * 16, 9 * 4 * 16)
    assert (depthwise.activations, depthwise.forward) == (4 * 9, 4 * 4 * 9)
    assert (separable.activations, separable.forward) == (5 * 9, (4 * 4 + 4 * 5) * 9)


def test_unknown_shapes_are_refused():
    def some_steps():
        return tf.keras.layers.Lambda(
            lambda x: tf.boolean_mask(x, tf.reduce_any(x > 0, [0, 2]), axis=1)
        )

    model = own(some_steps, dense(2, "last"), shape=(4, 3))
    with pytest.raises(ValueError, match=r"shapes must be known .* Received: layer='last'"):
        measure(model)


# Cuts.


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
        ("medium", r"tier must be strong, .* below 1\. Received: tier='medium'"),
        ("1.5", r"tier must be strong, .* below 1\. Received: tier='1.5'"),
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


# Clients.


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


def scaled():
    """Batch norm, a GRU and a last layer without bias, inside of a Sequential in a Sequential."""
    layers = tf.keras.layers
    head = tf.keras.Sequential([layers.Dense(4), layers.Dense(2, use_bias=False)])
    blocks = [layers.GRU(5), layers.BatchNormalization(), tf.keras.Sequential([head])]
    return tf.keras.Sequential([*blocks, layers.Softmax()])


@pytest.mark.parametrize(("name", "share"), [("bilstm", 0.5), ("scaled", 0.3), ("scaled", 0.55)])
def test_bytes_of_channels_are_those_of_the_shares_that_a_client_sends(name, share):
    model = model_spec.ModelSpec(scaled, (6, 3)) if name == "scaled" else spec(name)
    params = channel.Params(share=share, tiers=("weak",))
    sent = 0
    with tf.Graph().as_default():
        built = model.instantiate()
        part = channel._part(built, share)
        for variable in (*built.trainable, *built.statistics):
            sent += np.broadcast_to(part.weight(variable), variable.shape).sum()
    assert channel.cost(model, params, params.tiers[0]).bytes_up == 4 * sent
    assert channel.cost(model, params, tiers.create("strong")) == costs.whole(
        model, params.local.batch_size
    )


# Time.


def test_speeds():
    assert rounds.parse_speeds("0.33,1,2.5") == (1 / 3, 1.0, 2.5)
    assert rounds.speed(0.66) == 0.66
    assert rounds.speed(2) == 2
    for text in ("", "0", "-1", "nan", "inf", "fast", "1,,2"):
        with pytest.raises(ValueError, match=rf"^speeds must be .* Received: speeds='{text}'$"):
            rounds.parse_speeds(text)


def test_weaker_clients_are_slower_in_equal_shares():
    strengths = np.array([1.0, 0.2, 0.2, 0.5, 0.2, 0.2, 1.0, 0.5])
    found = rounds.assign_speeds((1.0, 0.25, 0.5), strengths, seed=3)
    values, counts = np.unique(found, return_counts=True)
    assert values.tolist() == [0.25, 0.5, 1.0]
    assert counts.max() - counts.min() <= 1
    order = np.argsort(strengths, kind="stable")
    assert all(
        max(found[strengths < s], default=0) <= min(found[strengths == s]) for s in strengths
    )
    assert found[order[-1]] == 1.0
    others = [rounds.assign_speeds((1.0, 0.25, 0.5), strengths, seed) for seed in range(10)]
    assert len({tuple(speeds) for speeds in others}) > 1


# The command line.


def test_table_of_a_model_beside_the_papers(capsys):
    assert costs_command.main(["--model=fedpmt_fcnn", "--batch_size=12", "--tiers=strong,2"]) == 0
    out = capsys.readouterr().out
    assert "15,301,360   1.00  15,305,968         1.00  -4,608" in out
    assert out.count("equal") == 3
    assert costs_command.main(["--model=femnist_cnn", "--tiers=moderate"]) == 0
    assert "6,551,614 / 2,110 / 0.99 equal" in capsys.readouterr().out


def test_json_for_another_task(capsys):
    assert costs_command.main(["--model=mlp_100", "--task=cifar100", "--tiers=0.5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["input_shape"], found["num_classes"]) == ([32, 32, 3], 100)
    styles = [(row["style"], row["tier"]) for row in found["rows"]]
    assert styles == [
        *((style, "0.5") for style in ("embracing", "fedpmt", "prefix", "channel")),
        ("width", "0.45"),
        ("width", "0.2"),
    ]
    assert found["fedpmt_table_2"] == []


def test_papers_figures_only_for_the_papers_input():
    changed = model_costs.report("femnist_cnn", (28, 28, 1), 10, 32, tiers.as_tiers(["strong"]))
    assert {row["paper"] for row in changed["rows"]} == {""}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--model=resnet"], "model must be one of .* Received: model='resnet'"),
        (["--task=cifar"], "task must be one of .* Received: task='cifar'"),
        (["--batch_size=0"], "batch_size must be a positive integer. Received: batch_size='0'"),
        (["--num_classes=x"], "num_classes must be a positive integer. Received: num_classes='x'"),
        (["--num_classes=1"], "num_classes must be at least 2. Received: num_classes=1"),
        (["--task=imdb"], "model must take token inputs .* Received: model='resnet20'"),
        (["--model=softmax", "--tiers=1"], ".* must be at most 0 for this model. Received: 1"),
        (["--models=softmax"], "flags must be as in --help: .* Received: --models=softmax"),
    ],
)
def test_bad_input_is_one_line(args, message, capsys):
    assert costs_command.main(args) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(f"error: {message}\n", captured.err), captured.err


def test_the_module_is_a_command():
    command = [sys.executable, "-W", "error", "-m", "tff_partial.costs", "--model=resnet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch("error: model must be one of .*\n", done.stderr), done.stderr


def test_importing_does_not_import_tensorflow():
    code = "import sys, tff_partial.cli.costs; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
