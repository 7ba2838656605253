"""Dense networks against NumPy."""

import numpy as np
import pytest

import models


@pytest.mark.parametrize(
    ("name", "widths"),
    [
        ("fedpmt_fcnn", [400, 300, 200, 100]),
        ("mlp_200", [200, 200]),
        ("mlp_100", [100, 100]),
        ("softmax", []),
    ],
)
def test_layers_and_logits(name, widths):
    model = models.create(name, (3, 4, 1), 5)
    x = np.random.default_rng(0).normal(size=(6, 3, 4, 1)).astype(np.float32)
    kernels, biases = model.get_weights()[::2], model.get_weights()[1::2]
    assert [kernel.shape[1] for kernel in kernels] == [*widths, 5]
    y = x.reshape(6, 12)
    for kernel, bias in zip(kernels[:-1], biases):
        y = np.maximum(y @ kernel + bias, 0)
    np.testing.assert_allclose(model(x), y @ kernels[-1] + biases[-1], atol=1e-5)


def test_a_narrow_one_has_fewer_units_and_softmax_has_none_to_lose():
    narrow = models.create("mlp_200", (4,), 3, width=0.25)
    assert [w.shape for w in narrow.get_weights()[::2]] == [(4, 50), (50, 50), (50, 3)]
    assert [w.shape for w in models.create("softmax", (4,), 3, width=0.25).get_weights()] == [
        (4, 3),
        (3,),
    ]
