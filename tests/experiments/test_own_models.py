"""A user's models: functions, specs, and what they must fit."""

import pytest
import tensorflow as tf

from tests import tiny
from tff_partial.core import own_code
from tff_partial.core.model import ModelSpec
from tff_partial.experiments import bundled, own_models

SHAPE = (tiny.FEATURES,)


def create(value, shape=SHAPE, classes=3, width=1.0, dtype="float32", **options):
    name = own_code.register(value)
    return bundled.create_model(name, shape, classes, width, None, dtype, **options)


def test_a_function_gets_what_it_asks_for():
    def asks(num_classes, width=1.0, extra="none"):
        units = int(8 * width)
        return tf.keras.Sequential(
            [tf.keras.layers.Dense(units), tf.keras.layers.Dense(num_classes)]
        )

    model = create(asks, classes=7, width=0.5).instantiate()
    assert [v.shape.as_list() for v in model.trainable] == [[5, 4], [4], [4, 7], [7]]
    assert create(tiny.create_dense, seed=3).seed == 3


def test_what_a_spec_leaves_open_comes_from_the_task():
    spec = ModelSpec(tiny.create_dense, SHAPE, loss="categorical", seed=9)
    options = {"preprocess": tf.negative, "loss": "binary", "metrics": ("accuracy",), "seed": 4}
    made = create(spec, **options)
    assert (made.preprocess, made.loss, made.seed) == (tf.negative, "categorical", 4)
    top = ModelSpec(tiny.create_dense, SHAPE, metrics=("accuracy", "top5_accuracy"))
    assert create(top, **options).metrics == ("accuracy", "top5_accuracy")


@pytest.mark.parametrize(
    ("value", "given", "message"),
    [
        (tiny.create_dense, {"width": 0.5}, "width must be 1 for a model without"),
        (lambda units: None, {}, r"must ask for input_shape, .* Received: <lambda>\(units\)"),
        (tiny.spec(), {"shape": (4,)}, r"must take the data's examples, \[4\] of float32"),
        (tiny.spec(), {"dtype": "uint8"}, "of uint8. Received: input_shape="),
        (tiny.spec(), {"width": 0.5}, "width must be 1"),
        ([], {}, "model must be a ModelSpec or a function .* Received: list"),
        (tiny.create_dense, {"classes": 4}, "a logit for each of 4 classes. Received: 3 logits"),
        (tiny.spec(), {"classes": 4}, "a logit for each of 4 classes. Received: 3 logits"),
        (tiny.create_dense(), {}, "a function that creates a new .* Received: a model, 'seq"),
    ],
)
def test_what_does_not_fit_is_refused(value, given, message):
    with pytest.raises(ValueError, match=message):
        create(value, **given)


def test_an_own_model_takes_any_input_and_has_a_normalization_if_it_asks_for_one():
    def normalized(normalization="batch"):
        return None

    for function, expected in ((normalized, True), (tiny.create_dense, False)):
        architecture = own_models.architecture_of(own_code.register(function))
        assert architecture.normalized == expected
        assert {*architecture.inputs} == {"image", "feature", "token"}
