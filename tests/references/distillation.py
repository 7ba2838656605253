"""FedDF's distillation in NumPy: Adam on the divergence from an ensemble, all examples a step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.references import submodels as reference
from tests.references.submodels import Arrays, Net


def ensemble(net: Net, models: Sequence[Arrays], examples: np.ndarray) -> np.ndarray:
    """The mean of the models' logits."""
    return np.mean([reference.forward(net, w, examples)["logits"] for w in models], axis=0)


def distilled(
    net: Net, weights: Arrays, logits: np.ndarray, examples: np.ndarray, steps: int, rate: float
) -> Arrays:
    """The weights after so many steps of Adam (0.9, 0.999, 1e-7)."""
    teacher = np.exp(reference.log_softmax(logits))
    w = {n: np.asarray(value, np.float64) for n, value in weights.items()}
    m, v = ({n: np.zeros(value.shape) for n, value in w.items()} for _ in range(2))
    for t in range(1, steps + 1):
        acts = reference.forward(net, w, examples)
        error = (np.exp(reference.log_softmax(acts["logits"])) - teacher) / len(examples)
        g = net.backward(w, acts, error, 1.0)
        m = {n: 0.9 * m[n] + 0.1 * g[n] for n in w}
        v = {n: 0.999 * v[n] + 0.001 * g[n] ** 2 for n in w}
        step = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        w = {n: w[n] - step * m[n] / (np.sqrt(v[n]) + 1e-7) for n in w}
    return w
