"""Small versions of the library's models, and users' own."""

import functools

import models
from tff_partial.core import model as model_spec

SHAPES = {"bilstm": (6,)}
# Small enough to be built many times.
WIDTHS = {"wide_resnet28_10": 0.1, "wide_resnet16_8": 0.1, "femnist_cnn": 0.25, "vgg11": 0.25}
WIDTHS |= {"resnet18": 0.25, "preact_resnet18": 0.25}


@functools.cache
def spec_of(name, width=None, normalization=None):
    shape = SHAPES.get(name, (16, 16, 2))
    options = {"vocabulary": 20, "embedding": 12, "units": 10} if name == "bilstm" else {}
    width = WIDTHS.get(name, 1.0) if width is None else width
    create = functools.partial(models.create, name, shape, 5, width, normalization, **options)
    return model_spec.ModelSpec(create, shape, "int32" if name == "bilstm" else "float32")


def user_spec(create, shape=(8, 8, 3)):
    return model_spec.ModelSpec(create, shape)
