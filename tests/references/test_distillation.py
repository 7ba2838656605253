"""The NumPy reference of distillation."""

import numpy as np

from tests.references import distillation
from tests.references import submodels as reference
from tests.submodels.nets import NETS, as_dict


def test_a_student_learns_its_teachers_logits():
    net, spec = NETS["dense"]
    model = spec.instantiate()
    weights = as_dict("dense", [v.numpy() for v in model.trainable])
    teacher = {n: w + 0.3 for n, w in weights.items()}
    x = np.random.default_rng(0).normal(size=(30, 5))
    logits = distillation.ensemble(net, [teacher, teacher], x)
    np.testing.assert_allclose(logits, reference.forward(net, teacher, x)["logits"])
    student = distillation.distilled(net, weights, logits, x, 400, 0.02)

    def distance(w):
        ours = reference.log_softmax(reference.forward(net, w, x)["logits"])
        return np.abs(ours - reference.log_softmax(logits)).mean()

    assert distance(student) < 0.2 * distance(weights)
