"""FedDC's synthetic data."""

from __future__ import annotations

import numpy as np

from tasks import synthetic, synthetic_feddc
from tests.tasks import declared
from tests.tasks.declared import load_embedded


class TestTask(declared.Task):
    name = "synthetic_feddc"


def _accuracy_of_one_model(clients: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """What softmax regression on all clients' examples gets right of them."""
    x, y = (np.concatenate(part) for part in zip(*clients))
    x, kernel = np.c_[x, np.ones(len(x))], np.zeros((x.shape[1] + 1, y.max() + 1))
    for _ in range(300):
        p = np.exp(x @ kernel - (x @ kernel).max(axis=1, keepdims=True))
        p = p / p.sum(axis=1, keepdims=True) - np.eye(kernel.shape[1])[y]
        kernel -= 0.3 * x.T @ p / len(x)
    return float(np.mean(np.argmax(x @ kernel, axis=1) == y))


def test_feddcs_synthetic_data_have_its_codes_shapes() -> None:
    data = load_embedded("synthetic_feddc", partition="synthetic:0,0", clients=20, seed=5)
    many = load_embedded("synthetic_feddc", partition="synthetic:0,0", clients=1_000_000, seed=5)
    x, y = data.client(7)
    assert (x.shape, y.shape, data.client_size(7)) == ((200, 30), (200,), 200)
    assert (data.num_classes, set(np.unique(data.test_y))) == (5, set(range(5)))
    assert np.array_equal(data.test_x[7 * 200 : 8 * 200], x)
    assert (len(data.test_y), len(many.test_y)) == (4_000, 20_000)
    assert np.array_equal(many.client(7)[0], x)


def test_feddcs_synthetic_data_are_homogeneous_for_zero_and_fedproxs_are_not() -> None:
    numbers = range(20)
    same = [synthetic_feddc.create_client(0, 0, 0, i) for i in numbers]
    models = [synthetic_feddc.create_client(1, 0, 0, i) for i in numbers]
    inputs = [synthetic_feddc.create_client(0, 1, 0, i) for i in numbers]
    fedprox = [synthetic.create_client(0, 0, 0, i)[:2] for i in numbers]

    def centres(clients: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The spread over clients of the mean input, in the last features, of little noise."""
        return np.std([x[:, -10:].mean(axis=0) for x, _ in clients], axis=0)

    def class_shares(clients: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The spread over clients of the share of each class."""
        return np.std([np.bincount(y, minlength=10) / len(y) for _, y in clients], axis=0)

    assert max(centres(same).max(), centres(models).max()) < 0.03
    assert min(centres(inputs).min(), centres(fedprox).min()) > 0.5
    assert min(_accuracy_of_one_model(same), _accuracy_of_one_model(inputs)) > 0.75
    assert _accuracy_of_one_model(models) < 0.45
    assert max(class_shares(same)) < 0.06
    assert min(max(class_shares(models)), max(class_shares(fedprox))) > 0.1
    spread = np.std([x for x, _ in same], axis=(0, 1))
    np.testing.assert_allclose(spread, np.arange(1, 31) ** -0.6, rtol=0.05)
    other = synthetic_feddc.create_client(0, 0, 1, 0)
    assert not np.array_equal(same[0][0], other[0])
    assert not any(np.array_equal(same[0][0], x) for x, _ in same[1:])
