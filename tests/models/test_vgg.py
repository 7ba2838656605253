"""VGG11."""

from __future__ import annotations

import models
from tests.models.small import GRAY, IMAGE


def test_vgg11_ends_in_one_value_a_channel():
    for shape in (IMAGE, GRAY):
        model = models.create("vgg11", shape, 10, 0.1)
        assert model.layers[-2].output_shape == (None, 1, 1, 51)
