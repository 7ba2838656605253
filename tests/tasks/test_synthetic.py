"""FedProx's synthetic data."""

from __future__ import annotations

import numpy as np
import pytest

from tasks import synthetic
from tests.tasks import declared
from tests.tasks.declared import load_embedded


class TestTask(declared.Task):
    name = "synthetic"


def test_synthetic_clients_are_functions_of_seed_and_number() -> None:
    data = load_embedded("synthetic", partition="synthetic:1,1", clients=1_000_000, seed=5)
    few = load_embedded("synthetic", partition="synthetic:1,1", clients=200, seed=5)
    x, y = data.client(123)
    assert np.array_equal(x, few.client(123)[0])
    assert x.shape == (data.client_size(123), 60)
    assert x.dtype == np.float32
    assert len(data.client(999_999)[1]) == data.client_size(999_999)
    assert np.array_equal(data.test_x, few.test_x)
    assert np.array_equal(synthetic.create_client(1, 1, 5, 123).y[: len(y)], y)


def test_synthetic_follows_its_equations() -> None:
    sizes = np.array([synthetic.size(0, client) for client in range(2000)])
    assert sizes.min() >= 50
    assert sizes.max() == 1000
    assert np.median(sizes) == pytest.approx(50 + np.exp(4), rel=0.1)
    clients = [synthetic.create_client(0, 0, 0, client) for client in range(200)]
    spread = np.mean([client.x.std(axis=0) for client in clients], axis=0)
    np.testing.assert_allclose(spread, np.arange(1, 61) ** -0.6, rtol=0.05)
    centres = [synthetic.create_client(0, 3, 0, client).x.mean() for client in range(200)]
    assert np.std(centres) == pytest.approx(3, rel=0.15)


@pytest.mark.parametrize("name", ["synthetic", "synthetic_feddc"])
def test_synthetic_takes_only_its_own_partition(name: str) -> None:
    with pytest.raises(ValueError, match="partition must read synthetic:ALPHA,BETA for this task"):
        load_embedded(name, partition="iid")
