"""The losses of local models."""

import numpy as np
import pytest

from tests import tiny
from tests.algorithms.averaging_rounds import NAMES, TAU, averaging, iterations, local
from tests.references import averaging as reference


@pytest.mark.parametrize("name", NAMES)
def test_losses_of_local_models_before_the_average_and_of_the_global_one(name):
    """On all examples, which are more than a batch of them."""
    data = tiny.client_data((300, 7, 20))
    process = tiny.build(name, local())
    running = tiny.Rounds(process, data)
    states = process.client_states(range(3), [True] * 3, [process.initial_client_state()] * 3, True)
    output = process.next(running.state, states, running.records)
    found = output.metrics["losses"]
    models = before_the_last_average(name, data, running.weights())
    losses = [reference_loss(model, *data[i]) for i, model in enumerate(models)]
    assert found["min_local_loss"] == pytest.approx(min(losses), rel=1e-5)
    sizes = [len(y) for _, y in data]
    assert found["mean_local_loss"] == pytest.approx(np.average(losses, weights=sizes), rel=1e-5)
    whole = np.concatenate([x for x, _ in data]), np.concatenate([y for _, y in data])
    wanted = reference_loss(tiny.flat(process.get_model_weights(output.state)), *whole)
    assert found["global_loss"] == pytest.approx(wanted, rel=1e-5)
    assert found["min_local_loss"] != pytest.approx(wanted, rel=1e-3)


def before_the_last_average(name, data, initial):
    """The reference's local models after one round, the last average undone: made without it."""
    kind = averaging(name)
    steps = iterations(data, 1, local(), [0.3] * TAU)

    class Until:
        tau = TAU

        def averaged(self, k, shapes):
            mask = kind.averaged(k, shapes)
            return mask & False if k == TAU - 1 else mask

    found = reference.run(initial, data, steps, Until(), momentum=0.6, weight_decay=0.02)
    return found[-1]["models"]


def reference_loss(weights, x, y):
    from tests.references import layers as reference_layers

    return reference_layers.loss([np.asarray(w, np.float64) for w in weights], x, y)


@pytest.mark.parametrize("in_steps", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_discrepancies_after_every_step_and_the_same_model(name, in_steps):
    data = tiny.client_data((12, 7, 20))
    plain, process = (tiny.build(name, local(), measure_steps=m) for m in (False, True))
    running = tiny.Rounds(process.in_steps() if in_steps else process, data)
    expected = tiny.Rounds(plain, data)
    steps = iterations(data, 2, local(), [0.3] * 2 * TAU)
    kind = averaging(name)
    wanted = reference.run(running.weights(), data, steps, kind, momentum=0.6, weight_decay=0.02)
    values = [process.initial_client_state()] * 3
    for t in range(2):
        states = process.client_states(range(3), [True] * 3, values)
        output = running.process.next(running.state, states, running.records)
        running.state, values = output.state, [s["value"] for s in output.client_states]
        found = [output.metrics["discrepancies"][f"discrepancy_{k + 1}"] for k in range(TAU)]
        models = [wanted[t * TAU + k]["models"] for k in range(TAU)]
        np.testing.assert_allclose(found, [spread(m) for m in models], rtol=1e-4, atol=1e-9)
        expected.next()
    for a, b in zip(running.weights(), expected.weights()):
        np.testing.assert_allclose(a, b, atol=1e-6)


def spread(models):
    flat = np.stack([np.concatenate([w.ravel() for w in model]) for model in models])
    return np.square(flat - flat.mean(axis=0)).sum(axis=1).mean()
