"""Local models of which a part is synchronised."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import models
from tests import tiny
from tff_partial.algorithms import periodic_averaging
from tff_partial.core import model as model_spec
from tff_partial.core.local_training import LocalTraining
from tff_partial.similarity import schemes

SIZES = (12, 7, 20)
SHAPES = [(5, 6), (6,), (6,), (6,), (6, 4), (4,), (4, 3), (3,)]
LOCAL = LocalTraining(steps=3, batch_size=4, learning_rate=0.3, momentum=0.6)


def create_keras():
    """Four blocks with parameters, the second one a batch norm."""
    norm = [tf.keras.layers.BatchNormalization(), tf.keras.layers.ReLU()]
    return tf.keras.Sequential(
        [
            tf.keras.layers.Dense(6, name="first"),
            tf.keras.Sequential(norm, name="norm"),
            tf.keras.layers.Dense(4, activation="relu", name="third"),
            tf.keras.layers.Dense(3, name="classifier"),
        ]
    )


def spec():
    return model_spec.ModelSpec(create_keras, (tiny.FEATURES,))


def params(**changes):
    return periodic_averaging.Params(**{"local": LOCAL, "population": 3, **changes})


@functools.cache
def train(scheme):
    """The parameters of each client [clients, parameters] after each of three rounds."""
    process = schemes.build(spec(), params(), scheme)
    running, found = tiny.Rounds(process, tiny.client_data(SIZES)), []
    for _ in range(3):
        running.next()
        found.append(np.stack([running.kept(i)["parameters"] for i in range(3)]))
    return found


def flat(scheme):
    found = schemes.shares(spec(), scheme).trainable
    return np.concatenate([np.broadcast_to(m, s).reshape(-1) for m, s in zip(found, SHAPES)])


@pytest.mark.parametrize("scheme", ["first_half", "second_half", "channel"])
def test_after_a_round_it_is_the_mean_of_independent_clients(scheme):
    found, independent, chosen = train(scheme)[0], train("none")[0], flat(scheme)
    mean = independent.astype(np.float64).mean(axis=0)
    wanted = np.where(chosen, mean, independent)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert 0 < chosen.sum() < chosen.size


@pytest.mark.parametrize("scheme", ["first_half", "second_half", "channel"])
def test_the_rest_persists(scheme):
    found, chosen = train(scheme)[-1], flat(scheme)
    assert np.array_equal(found[0, chosen], found[1, chosen])
    assert np.array_equal(found[0, chosen], found[2, chosen])
    assert np.ptp(found[:, ~chosen], axis=0).max() > 1e-3


def test_independent_clients_do_not_see_each_other():
    together = train("none")[1]
    data = tiny.client_data(SIZES)
    process = periodic_averaging.build(spec(), params(population=1))
    for client in range(3):
        alone = tiny.Rounds(process, data)
        for _ in range(2):
            alone.next([client])
        np.testing.assert_allclose(alone.kept(client)["parameters"], together[client], atol=1e-6)


def test_halves_complement_each_other():
    first, second = flat("first_half"), flat("second_half")
    assert np.array_equal(first, ~second)
    assert first.sum() == 5 * 6 + 6 + 6 + 6
    assert not flat("none").any()


def test_statistics_go_with_their_blocks():
    # Moving mean and variance of six channels.
    wanted = {"none": [0] * 12, "first_half": [1] * 12, "second_half": [0] * 12}
    wanted["channel"] = [1, 1, 1, 0, 0, 0] * 2
    for scheme, mask in wanted.items():
        assert schemes.shares(spec(), scheme).statistics.astype(int).tolist() == mask


def test_half_of_the_channels_and_the_whole_last_layer():
    found = schemes.shares(spec(), "channel").trainable
    assert [m.astype(int).tolist() for m in found[:2]] == [[1, 1, 1, 0, 0, 0]] * 2
    assert all(m.all() for m in found[-2:])


def test_the_first_half_of_resnet20_ends_between_conv_7_and_conv_11():
    """Figure 3b has similarity 1 at Conv 3 and Conv 7 only: ends of the blocks 1 and 3."""
    model = model_spec.ModelSpec(lambda: models.create("resnet20", (8, 8, 3), 10), (8, 8, 3))
    found = schemes.shares(model, "first_half").trainable
    with tf.Graph().as_default():
        built = model.instantiate()
        chosen = {id(v) for v, share in zip(built.trainable, found) if share}
        names = [b.name for b in built.blocks if id(b.trainable_variables[0]) in chosen]
        assert names == [b.name for b in built.blocks[:5]]


def test_bad_input():
    with pytest.raises(ValueError, match=r"scheme must be one of .* Received: scheme='third'"):
        schemes.shares(spec(), "third")
    one = model_spec.ModelSpec(
        lambda: tf.keras.Sequential([tf.keras.layers.Dense(3, name="only")]), (tiny.FEATURES,)
    )
    with pytest.raises(ValueError, match=r"two blocks .* Received: \['only'\]"):
        schemes.shares(one, "first_half")
    assert not np.any(schemes.shares(one, "none").trainable[0])
