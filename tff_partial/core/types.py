"""Names for what functions pass to each other.

They are for annotations. Importing this module imports neither TensorFlow nor TFF.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from typing_extensions import TypeAlias

if TYPE_CHECKING:
    import tensorflow as tf
    import tensorflow_federated as tff

Array: TypeAlias = np.ndarray
Tensor: TypeAlias = "tf.Tensor"
Variable: TypeAlias = "tf.Variable"
Structure: TypeAlias = Any
"""Tensors in nested tuples, lists and mappings, as `tf.nest` takes them."""

KerasModel: TypeAlias = "tf.keras.Model"
KerasNode: TypeAlias = Any
"""A call of a layer in a functional model."""

KerasTensor: TypeAlias = Any
"""A tensor between the layers of a functional model: it has a shape and a type, no values."""

Layer: TypeAlias = "tf.keras.layers.Layer"
"""A Keras layer; a block of a model is one."""

LayerConfig: TypeAlias = dict[str, Any]
"""What `Layer.get_config` returns."""

Record: TypeAlias = Mapping[str, Tensor]
"""A client's data as a process receives it (`core.client_data`)."""

ClientDataset: TypeAlias = "tf.data.Dataset"
"""A data set with one element, the client's `Record`: what TFF accepts at CLIENTS."""

Weights: TypeAlias = "tff.learning.models.ModelWeights"
ServerState: TypeAlias = "tff.learning.templates.LearningAlgorithmState"
LearningProcess: TypeAlias = "tff.learning.templates.LearningProcess"
FinalizerProcess: TypeAlias = "tff.learning.templates.FinalizerProcess"
ClientResult: TypeAlias = "tff.learning.templates.ClientResult"
"""What a client sends: `update` (its delta) and `update_weight`."""

Computation: TypeAlias = "tff.Computation"
PolymorphicComputation: TypeAlias = Any
"""A `tff.Computation` for each type of its argument, as `tff.tensorflow.computation` returns."""

TffType: TypeAlias = "tff.Type"
Federated: TypeAlias = "tff.Value"
"""A value inside a `tff.federated_computation`: at SERVER, at CLIENTS or a structure of such."""

Metrics: TypeAlias = Mapping[str, Tensor]
Cell: TypeAlias = Union[str, int, float, None]
Row: TypeAlias = Mapping[str, Cell]
"""A row of metrics.csv: column -> value; empty text where a round has none."""
