"""Local functions of a plan as functions of TensorFlow."""

import threading
import weakref
from collections.abc import Sequence

import tensorflow as tf
from tensorflow.python.eager import context

from tff_partial.core.types import Tensor
from tff_partial.runtime.in_process import sequences, values
from tff_partial.runtime.in_process.steps import LeafValue, LocalFunction

# TensorFlow once corrupted its heap when two threads traced at the same moment. A function's first
# run prepares it in TensorFlow's runtime, so that happens under the lock as well.
trace_lock = threading.RLock()


class TracedFunction:
    """A `LocalFunction` that has been traced; it can be called from any thread.

    Variables and tables in it belong to the call (see `graphs`), so calls cannot meet. Where a
    resource has to keep its name, calls take turns.
    """

    def __init__(self, function: LocalFunction, device: str):
        self._types = [leaf.type for leaf in (*function.captures, *function.parameters)]
        self._device = device
        self._turns = threading.Lock() if function.exclusive else None
        self._prepared = False
        captured = len(function.captures)

        def emit(*arguments: Tensor) -> list[Tensor]:
            results = function.emit(arguments[captured:], arguments[:captured])
            # A function must not return its own parameter.
            given = {id(argument) for argument in arguments}
            return [tf.identity(r) if id(r) in given else r for r in results]

        with trace_lock, tf.device(device):
            specs = [sequences.tensor_spec(type_spec) for type_spec in self._types]
            self._function = tf.compat.v1.wrap_function(emit, specs)
        # TensorFlow forgets a function with its last reference, but not those that came with an
        # imported graph.
        libraries = (step.graph.graph_def.library for step in function.steps if step.graph)
        names = [f.signature.name for library in libraries for f in library.function]
        weakref.finalize(self, _forget_functions, names).atexit = False

    def __call__(self, arguments: Sequence[LeafValue]) -> list[Tensor]:
        """Call with the values of the captures, then of the parameters."""
        tensors = [values.to_tensor(a, t) for a, t in zip(arguments, self._types)]
        if not self._prepared:
            with trace_lock:
                if not self._prepared:
                    results = self._run(tensors)
                    self._prepared = True
                    return results
        if self._turns is None:
            return self._run(tensors)
        with self._turns:
            return self._run(tensors)

    def _run(self, tensors: list[Tensor]) -> list[Tensor]:
        with tf.device(self._device):
            return self._function(*tensors)


def _forget_functions(names: list[str]) -> None:
    for name in names:
        if context.context().has_function(name):
            context.context().remove_function(name)
