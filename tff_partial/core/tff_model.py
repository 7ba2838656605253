"""A model as TFF's own evaluation takes it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from tff_partial.core import keras_compat
from tff_partial.core.lazy import tf, tff

if TYPE_CHECKING:
    from tff_partial.core.model import ModelSpec


def create(spec: ModelSpec) -> tff.learning.models.VariableModel:
    """Return a `tff.learning.models.VariableModel` with the spec's loss and metrics.

    Its weights are those of this project's processes, for static batch normalisation after
    `evaluation.calibrated`; it takes batches (x, y) of examples as clients hold them,
    `preprocess` included.
    """
    model = spec.instantiate()
    with keras_compat.tf2_behavior():
        keras_model = tf.keras.Sequential([tf.keras.layers.Lambda(model.preprocess), *model.blocks])
        keras_model.build([None, *spec.input_shape])
    one_logit = keras_model.compute_output_shape([None, *spec.input_shape])[-1] == 1
    if (spec.loss or ("binary" if one_logit else "categorical")) == "binary":
        loss, labels = tf.keras.losses.BinaryCrossentropy, [None, 1]
        metrics = [tf.keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)]
    else:
        loss, labels = tf.keras.losses.SparseCategoricalCrossentropy, [None]
        metrics = [tf.keras.metrics.SparseCategoricalAccuracy("accuracy")]
    if "top5_accuracy" in spec.metrics:
        metrics.append(tf.keras.metrics.SparseTopKCategoricalAccuracy(5, "top5_accuracy"))
    x = tf.TensorSpec([None, *spec.input_shape], spec.input_dtype)
    with warnings.catch_warnings():
        # That TFF does not train batch-norm statistics is no concern of an evaluation.
        warnings.filterwarnings("ignore", "Batch Normalization contains")
        return tff.learning.models.from_keras_model(
            keras_model,
            loss=loss(from_logits=True),
            input_spec=(x, tf.TensorSpec(labels, tf.int32)),
            metrics=metrics,
        )
