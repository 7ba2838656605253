"""Weights out of the full model and back."""

import numpy as np
import pytest

from tests.references import submodels as reference
from tests.submodels.nets import NETS, as_dict
from tff_partial.submodels import groups as channel_groups
from tff_partial.submodels import slicing


def random_kept(groups, rng):
    sizes = [int(rng.integers(1, g.size + 1)) for g in groups]
    return [np.sort(rng.permutation(g.size)[:k]).astype(np.int32) for g, k in zip(groups, sizes)]


@pytest.mark.parametrize("net", ["dense", "conv"])
@pytest.mark.parametrize("seed", range(5))
def test_restore_undoes_extract_and_is_nothing_elsewhere(net, seed):
    rng = np.random.default_rng(seed)
    _, spec = NETS[net]
    channels, model = channel_groups.analyse(spec), spec.instantiate()
    values = [rng.normal(size=v.shape).astype(np.float32) for v in model.trainable]
    kept = random_kept(channels.groups, rng)
    small = slicing.extract(channels, values, kept)
    full, weights = slicing.restore(channels, small, kept)
    mask = reference.restore(
        reference.extract(as_dict(net, values), kept), kept, as_dict(net, values)
    )[1]
    for value, restored, weight, expected in zip(values, full, weights, mask.values()):
        np.testing.assert_array_equal(np.broadcast_to(weight, value.shape), expected)
        np.testing.assert_array_equal(restored, value * expected)


@pytest.mark.parametrize("net", ["dense", "conv"])
@pytest.mark.parametrize("everything", ["indices", "none"])
def test_keeping_everything_is_the_identity(net, everything):
    _, spec = NETS[net]
    channels, model = channel_groups.analyse(spec), spec.instantiate()
    values = [v.numpy() for v in model.trainable]
    kept = [np.arange(g.size) if everything == "indices" else None for g in channels.groups]
    for value, small in zip(values, slicing.extract(channels, values, kept)):
        np.testing.assert_array_equal(small, value)
    full, weights = slicing.restore(channels, values, kept)
    for value, restored, weight in zip(values, full, weights):
        np.testing.assert_array_equal(restored, value)
        assert (weight.numpy() == 1).all()


def test_of_shares_it_is_how_likely_an_element_is_held():
    channels = channel_groups.analyse(NETS["dense"][1])
    counts, rng = [2, 1], np.random.default_rng(0)
    sizes = [g.size for g in channels.groups]
    likely = slicing.held(channels, [k / m for k, m in zip(counts, sizes)])
    masks = [
        slicing.held(channels, [np.sort(rng.permutation(m)[:k]) for k, m in zip(counts, sizes)])
        for _ in range(100)
    ]
    for expected, *drawn in zip(likely, *masks):
        # The standard deviation of a mean of 100 draws is 0.05 at most.
        np.testing.assert_allclose(np.mean(drawn, axis=0), expected, atol=0.2)
