"""Layers whose channels are followed: the narrow model is the full one with the others 0."""

import pytest

from tests.submodels import zoo
from tests.submodels.specs import block_spec, check_small_equals_zeroed, functional

# Sizes of the groups, where they are worth a look.
SIZES = {
    "concatenated": [4, 6],
    "flattened_parts": [4, 5, 6],
    "grouped": [4, 2, 3],
    "grouped_by_channel": [2, 6],
    "depth_multiplied": [5, 7],
    "depth_multiplied_sequence": [4],
    "dense_as_map": [6, 5],
    "attended": [6, 4],
    "softmax_over_channels": [6],
}


@pytest.mark.parametrize("name", [n for n in zoo.FIXED if "operations" not in n])
def test_a_step_of_the_small_model_is_that_of_the_full_one(name):
    spec = block_spec(functional((4, 4, 3), zoo.FIXED[name]))
    channels = check_small_equals_zeroed(spec, seed=1, halves=False, training=True)
    assert channels.groups
    if name in SIZES:
        assert sorted(channels.sizes) == sorted(SIZES[name])
