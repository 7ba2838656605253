"""A round in one computation or in several, against NumPy."""

import numpy as np
import pytest

from tests import tiny
from tests.algorithms.averaging_rounds import SIZES, TAU, assert_round, averaging, iterations, local
from tests.references import averaging as reference


@pytest.mark.parametrize("in_steps", [False, True])
@pytest.mark.parametrize("weighting", ["uniform", "examples"])
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("partial_averaging", {"partition": "channel"}),
        ("partial_averaging", {"partition": "layer"}),
        ("periodic_averaging", {}),
    ],
)
def test_equals_numpy(name, params, weighting, in_steps):
    data = tiny.client_data(SIZES)
    process = tiny.build(name, local(), weighting=weighting, **params)
    running = tiny.Rounds(process.in_steps() if in_steps else process, data)
    wanted = reference.run(
        running.weights(),
        data,
        iterations(data, 3, local(), [0.3] * 9),
        averaging(name, **params),
        by_examples=weighting == "examples",
        momentum=0.6,
        weight_decay=0.02,
    )
    for t in range(3):
        running.next()
        assert_round(running, wanted[t * TAU + TAU - 1])
    if name == "partial_averaging":
        assert float(running.metrics[-1]["discrepancy"]) > 1e-4


def test_in_steps_clients_may_come_back_in_another_order(monkeypatch):
    """As from several workers: states and data stay together, and `next` is left alone."""
    data, process = tiny.client_data(SIZES), tiny.build("partial_averaging", local())
    expected = tiny.Rounds(process, data)
    in_steps = process.in_steps()
    for name in ("advance", "finish"):
        computation = getattr(process._steps, name)
        monkeypatch.setattr(
            process._steps, name, lambda *args, c=computation: reverse_last(c(*args))
        )
    running = tiny.Rounds(in_steps, data)
    for _ in range(2):
        running.next()
        expected.next()
    for client in range(3):
        for a, b in zip(tiny.flat(running.kept(client)), tiny.flat(expected.kept(client))):
            np.testing.assert_allclose(a, b, atol=1e-6)


def reverse_last(results):
    *others, clients = results
    return (*others, clients[::-1])
