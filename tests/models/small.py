"""Small versions of all models."""

from __future__ import annotations

import models

IMAGE = (32, 32, 3)
GRAY = (28, 28, 1)
SHAPES = {
    "vgg11": GRAY,
    "femnist_cnn": GRAY,
    "fedpmt_cnn_mnist": GRAY,
    "fedpmt_fcnn": GRAY,
    "mlp_200": GRAY,
    "mlp_100": GRAY,
    "mlp_50_24": GRAY,
    "bilstm": (8,),
}
# These are too large for a quick test at half width.
NARROW = {"resnet18": 0.1, "preact_resnet18": 0.1, "wide_resnet28_10": 0.05, "wide_resnet16_8": 0.1}
NARROW |= {"resnet18_imagenet": 0.1}


def create_small(name, num_classes=10, width=None, normalization=None):
    width = NARROW.get(name, 0.5) if width is None else width
    return models.create(name, SHAPES.get(name, IMAGE), num_classes, width, normalization)
