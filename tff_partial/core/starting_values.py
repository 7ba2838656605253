"""Values with which variables start, where initialisers that follow from the seed do not say them.

These are weights that `create_keras` loads or sets, and all variables of frozen layers: nobody
sends these, so they must be right in every graph. A graph is no place to read a file: the values
are taken once, outside of graphs, and are constants of the graphs that need them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Optional

import numpy as np

from tff_partial.core.lazy import tf
from tff_partial.core.types import Array, Layer, Structure, Variable

if TYPE_CHECKING:
    from tff_partial.core.model import Model, ModelSpec

# Position among all variables of a model, `Model.everything` -> value.
Values = Mapping[int, Array]


def are_given(graph: tf.Graph) -> bool:
    """Return whether variables were set in a graph after they had been made."""
    kinds = [op.type for op in graph.get_operations()]
    return kinds.count("AssignVariableOp") > kinds.count("VarHandleOp")


@contextlib.contextmanager
def left_out() -> Iterator[None]:
    """Set no variables in a graph that is no function, as there these are no values to be kept.

    Else Keras would open a session, and the values would be in each client's graph.
    """
    from keras.src import backend
    from tensorflow.python.ops import resource_variable_ops

    kind = resource_variable_ops.BaseResourceVariable
    assign, set_values = kind.assign, backend.batch_set_value

    def assign_outside(variable: Variable, *args: Structure, **kwargs: Structure) -> Structure:
        is_kept = tf.executing_eagerly() or tf.inside_function()
        return assign(variable, *args, **kwargs) if is_kept else variable

    def set_outside(tuples: Structure) -> None:
        if tf.executing_eagerly() or tf.inside_function():
            set_values(tuples)

    kind.assign, backend.batch_set_value = assign_outside, set_outside
    try:
        yield
    finally:
        kind.assign, backend.batch_set_value = assign, set_values


def of(spec: ModelSpec, given: bool) -> Values:
    """Return the values of frozen variables; if they are given, of all variables.

    Raises:
      ValueError: If the spec is made in a graph.
    """
    with tf.init_scope():
        if not tf.executing_eagerly():
            raise ValueError(
                "a model with frozen layers or loaded weights must be declared outside of graphs. "
                "Received: a ModelSpec in a tf.Graph"
            )
        model = spec.instantiate()
        first = 0 if given else len(model.variables)
        return {i: v.numpy() for i, v in enumerate(model.everything) if i >= first}


def apply(values: Values, model: Model, initial: bool) -> None:
    """Make the variables of a model start with their values; unless `initial`, the frozen only."""
    variables = model.everything
    first = 0 if initial else len(model.variables)
    for position, value in values.items():
        if position >= first:
            _start_from(variables[position], value)


def frozen_of(layers: list[Layer]) -> set[int]:
    """Return the ids of the variables of frozen layers, however deep they are."""
    inner = [x for layer in layers for x in layer._flatten_layers()]
    return {id(v) for layer in inner if not layer.trainable for v in layer.variables}


def _start_from(variable: Variable, value: Array) -> None:
    inner = getattr(variable, "_variable", variable)  # of one that is cast where it is read
    done: Optional[tf.Operation] = inner.assign(np.asarray(value), read_value=False)
    if done is not None:  # in a graph
        inner._initializer_op = done
