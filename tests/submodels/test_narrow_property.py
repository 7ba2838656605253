import pytest
from tests.submodels import zoo
from tests.submodels.specs import block_spec, check_small_equals_zeroed, functional


@pytest.mark.parametrize("name", zoo.FIXED)
def test_fixed(name):
    spec = block_spec(functional((4, 4, 3), zoo.FIXED[name]))
    channels = check_small_equals_zeroed(spec, 1, False, training=True)
    print(name, [(g.size, g.layers) for g in channels.groups])


@pytest.mark.parametrize("seed", range(12))
def test_random(seed):
    spec = block_spec(functional((4, 4, 3), zoo.random_body(seed)))
    channels = check_small_equals_zeroed(spec, seed, False, training=True)
    print(seed, [(g.size, g.layers) for g in channels.groups])
