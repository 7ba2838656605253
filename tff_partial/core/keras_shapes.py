"""Builds Keras models without running their layers, and without what only `fit` needs.

Where layers are called to make a model, Keras traces each of them into a graph that it throws
away, to learn the shape of its output: a loop, its gradient and a second one for cuDNN for each
direction of an LSTM. Layers of Keras's own say what that shape is. And each model, so each block
that is one, has three variables in which `fit` counts batches: a fourth of ResNet20's variables.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Callable

from tff_partial.core import normalization
from tff_partial.core.lazy import tf
from tff_partial.core.types import Layer, Structure, Tensor

# Layers with one output tensor, the shape of which `compute_output_shape` returns.
_KNOWN = (
    *("Conv2D", "Dense", "Embedding", "LSTM", "BatchNormalization", "GroupNormalization"),
    *("ReLU", "Dropout", "Flatten", "Add", "ZeroPadding2D"),
    *("DepthwiseConv2D", "Activation", "Multiply", "Reshape"),
    *("MaxPooling2D", "AveragePooling2D", "GlobalAveragePooling2D", "InputLayer"),
)


@contextlib.contextmanager
def computed() -> Iterator[None]:
    """Compute output shapes of known layers rather than tracing them while a model is made.

    The model and its variables are what they are without it, but it cannot be `fit`. Layers of
    other kinds, and models that have one, are traced.
    """
    from keras.src.engine import base_layer, training

    infer = base_layer.Layer._infer_output_signature
    count_batches = training.Model._init_batch_counters

    def infer_quickly(
        layer: Layer, inputs: Structure, args: Structure, kwargs: Structure, masks: Structure
    ) -> Structure:
        if any(mask is not None for mask in tf.nest.flatten(masks)) or not _is_known(layer):
            return infer(layer, inputs, args, kwargs, masks)
        layer.call = tf.autograph.experimental.do_not_convert(
            functools.partial(_stand_in, layer, layer.call)
        )
        try:
            return infer(layer, inputs, args, kwargs, masks)
        finally:
            del layer.call

    base_layer.Layer._infer_output_signature = infer_quickly
    training.Model._init_batch_counters = lambda model: None
    try:
        yield
    finally:
        base_layer.Layer._infer_output_signature = infer
        training.Model._init_batch_counters = count_batches


def _is_known(layer: Layer) -> bool:
    """Return whether `compute_output_shape` tells all about the one output of a layer."""
    from keras.src.engine import functional

    if getattr(layer, "mask_zero", False) or getattr(layer, "return_state", False):
        return False
    if isinstance(layer, tf.keras.Model):
        is_graph = getattr(layer, "_is_graph_network", False) and len(layer.outputs) == 1
        as_usual = type(layer).call in (functional.Functional.call, tf.keras.Sequential.call)
        return is_graph and as_usual and all(map(_is_known, layer.layers))
    if isinstance(layer, tf.keras.layers.Wrapper):
        unsaid = tf.keras.layers.Layer.compute_output_shape
        return type(layer).compute_output_shape is not unsaid and _is_known(layer.layer)
    return type(layer) in _known_types() or normalization.is_static(layer)


@functools.cache
def _known_types() -> frozenset[type]:
    return frozenset(getattr(tf.keras.layers, name) for name in _KNOWN)


def _stand_in(
    layer: Layer,
    call: Callable[..., Tensor],
    inputs: Structure,
    *args: object,
    **kwargs: object,
) -> Tensor:
    """Return a placeholder of the shape and type that `call` returns; call it if that is empty."""
    shapes = tf.nest.map_structure(lambda x: x.shape, inputs)
    shape = tf.TensorShape(layer.compute_output_shape(shapes))
    if not all(size is None or size > 0 for size in shape[1:]):
        return call(inputs, *args, **kwargs)
    return tf.compat.v1.placeholder(_output_type(layer, inputs), shape)


def _output_type(layer: Layer, inputs: Structure) -> tf.DType:
    if isinstance(layer, tf.keras.Model):
        return layer.outputs[0].dtype
    return layer.compute_dtype if layer.variables else tf.nest.flatten(inputs)[0].dtype
