"""Local functions of a plan as functions of TensorFlow."""

import threading
import weakref
from collections.abc import Sequence

import tensorflow as tf
from tensorflow.python.eager import context

from tff_partial.core.types import Tensor
from tff_partial.runtime.in_process import sequences, values
from tff_partial.runtime.in_process.devices import CPU
from tff_partial.runtime.in_process.steps import LeafValue, LocalFunction

# TensorFlow once corrupted its heap when two threads traced at the same moment. A function's first
# run prepares it in TensorFlow's runtime, so that happens under the lock as well.
trace_lock = threading.RLock()


class TracedFunction:
    """A `LocalFunction` that has been traced; it can be called from any thread.

    Variables and tables in it belong to the call (see `graphs`), so calls cannot meet. Where a
    resource has to keep its name, calls take turns. It is traced without a device: what has no
    device of its own runs where the function is called.
    """

    def __init__(self, function: LocalFunction):
        self._types = [leaf.type for leaf in (*function.captures, *function.parameters)]
        self._turns = threading.Lock() if function.exclusive else None
        self._prepared: set[str] = set()
        captured = len(function.captures)

        def emit(*arguments: Tensor) -> list[Tensor]:
            results = function.emit(arguments[captured:], arguments[:captured])
            # A function must not return its own parameter.
            given = {id(argument) for argument in arguments}
            return [tf.identity(r) if id(r) in given else r for r in results]

        with trace_lock, tf.device(None):
            specs = [sequences.tensor_spec(type_spec) for type_spec in self._types]
            self._function = tf.compat.v1.wrap_function(emit, specs)
        # TensorFlow forgets a function with its last reference, but not those that came with an
        # imported graph.
        libraries = (step.graph.graph_def.library for step in function.steps if step.graph)
        names = [f.signature.name for library in libraries for f in library.function]
        weakref.finalize(self, _forget_functions, names).atexit = False

    def __call__(self, arguments: Sequence[LeafValue], device: str = CPU) -> list[Tensor]:
        """Call on a device with the values of the captures, then of the parameters."""
        tensors = [values.on_device(a, t, device) for a, t in zip(arguments, self._types)]
        if device not in self._prepared:
            with trace_lock:
                if device not in self._prepared:
                    results = self._run(tensors, device)
                    self._prepared.add(device)
                    return results
        if self._turns is None:
            return self._run(tensors, device)
        with self._turns:
            return self._run(tensors, device)

    def _run(self, tensors: list[Tensor], device: str) -> list[Tensor]:
        with tf.device(device):
            return self._function(*tensors)


def _forget_functions(names: list[str]) -> None:
    for name in names:
        if context.context().has_function(name):
            context.context().remove_function(name)
