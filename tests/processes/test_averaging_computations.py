"""What stays on the clients."""

import numpy as np
import pytest

from tests import tiny
from tests.algorithms.averaging_rounds import NAMES, SIZES, local


@pytest.mark.parametrize("name", NAMES)
def test_statistics_and_momentum_stay_on_the_clients(name):
    data = tiny.client_data(SIZES)
    running = tiny.Rounds(tiny.build(name, local(), tiny.spec(batch_norm=True)), data)
    running.next()
    kept = [running.kept(i) for i in range(3)]
    for field in ("statistics", "momentum"):
        assert not np.allclose(kept[0][field], kept[1][field])
    mean = np.mean([k["statistics"] for k in kept], axis=0)
    weights = running.process.get_model_weights(running.state)
    np.testing.assert_allclose(np.concatenate(tiny.flat(weights.non_trainable)), mean, atol=1e-6)
