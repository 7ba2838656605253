"""The multi-step forward pass of EmbracingFL, and where the recorded activations are kept.

    D <- the client's examples
    for each step (a range of blocks that fits into the client's memory):
        D <- these blocks applied to D, a batch at a time, without gradient
    return D

The blocks of one step are all that a client holds at a time; it trains on what the last one
returned, the recorded activations. On disk the steps run as they stand here; in memory their order
does not matter and a simulation does better to take one batch after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

from tff_partial.core import precision
from tff_partial.core.lazy import tf
from tff_partial.core.model import Cut, Model
from tff_partial.core.types import Layer, Record, Structure, Tensor

STATISTICS = ("moving", "batch")


class Recorder:
    """Runs a client's examples through what is before a cut."""

    def __init__(
        self,
        model: Model,
        cut: Cut,
        steps: Sequence[tuple[int, int]],
        batch_size: int,
        statistics: str,
        stored_as: str = "float32",
    ) -> None:
        self._model, self._cut, self._statistics = model, cut, statistics
        self._stored_as = stored_as
        self._steps = [model.blocks[start:stop] for start, stop in steps]
        self.batch_size = batch_size

    def set_seed(self, record: Record, batch: Tensor) -> None:
        """Determine the augmentation of a batch; local steps count up from the same seed."""
        if self._model.is_random:
            self._model.set_seed(record["seed"] - tf.stack([batch + 1, 0]))

    def functions(self) -> list[Callable[[Structure], Structure]]:
        """Return what each step does to a batch; the first one also prepares the examples."""
        model = self._model
        blocks = self._steps or [[]]

        def first(x: Tensor) -> Tensor:
            return self._forward(model.preprocess(model.augment(x)), blocks[0])

        steps: list[Callable[[Structure], Structure]] = [first]
        steps += [lambda x, b=b: self._forward(x, b) for b in blocks[1:]]  # type: ignore[misc]
        if self._cut.half:
            steps.append(lambda x: model.forward_first_half(model.blocks[self._cut.blocks], x))
        last = steps.pop()
        return [*steps, lambda x: self._stored(last(x))]

    def _stored(self, recorded: Structure) -> Structure:
        is_short = self._stored_as != "float32"
        return precision.cast(recorded, self._stored_as) if is_short else recorded

    def restored(self, recorded: Structure) -> Structure:
        """Return a batch of what was recorded in the type that the model computes in."""
        return precision.cast(recorded, self._model.precision)

    def _forward(self, x: Tensor, blocks: list[Layer]) -> Tensor:
        with self._model.batch_statistics(static_only=self._statistics == "moving"):
            return self._model.forward(x, training=False, blocks=blocks)


def in_memory(recorder: Recorder, record: Record) -> Structure:
    """Return the recorded activations of all examples: a tensor or a structure of [n, ...].

    A batch goes through all steps before the next one does, so that what one step hands to the
    next is never there for all examples: the same result with less memory.
    """

    def all_steps(x: Tensor) -> Structure:
        for function in recorder.functions():
            x = function(x)
        return x

    data = record["x"]
    num_examples = tf.shape(data)[0]
    batches = _Batches(num_examples, recorder.batch_size)
    traced = _trace(all_steps, data)
    # One tensor that is filled batch by batch, in place: `tensor_scatter_nd_update` would copy all
    # of it every time. Nothing reads it before the loop is done.
    empty = [_empty([num_examples, *t.shape[1:]], t.dtype) for t in traced.outputs]

    def body(i: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        recorder.set_seed(record, i)
        start, stop = batches.bounds(i)
        rows = tf.range(start, stop)
        values = tf.nest.flatten(traced(data[start:stop]))
        update = tf.raw_ops.InplaceUpdate
        return (i + 1, *(update(x=t, i=rows, v=v) for t, v in zip(tensors, values)))

    _, *filled = _loop(batches.count, body, *empty)
    return tf.nest.pack_sequence_as(traced.structured_outputs, filled)


class Disk:
    """Keeps recorded activations in files: a client's memory holds no more than a batch of them.

    A file holds one tensor of one example: `<folder>/<client id>-<step % 2>-<tensor>-<example>`.
    The next round overwrites it, so a folder is for one run and client ids must be unique. It is on
    the host that trains the client.
    """

    def __init__(self, recorder: Recorder, folder: str) -> None:
        self._recorder, self._folder = recorder, folder
        self._like: Structure = None

    def write(self, record: Record) -> list[Tensor]:
        """Run all steps; return the beginning of the files' names, a string for each tensor."""
        names: list[Tensor] = []
        for step, function in enumerate(self._recorder.functions()):
            names = self._write_step(record, step, function, names)
        return names

    def _write_step(
        self,
        record: Record,
        step: int,
        function: Callable[[Structure], Structure],
        before: list[Tensor],
    ) -> list[Tensor]:
        """Run a step on the files `before`, the first one on the examples; return its files."""
        data, like = record["x"], self._like
        batches = _Batches(tf.shape(data)[0], self._recorder.batch_size)
        traced = _trace(function, like if before else data)
        names = [self._name(record, step, tensor) for tensor in range(len(traced.outputs))]

        def write_batch(i: Tensor) -> Tensor:
            self._recorder.set_seed(record, i)
            start, stop = batches.bounds(i)
            examples = tf.range(start, stop)
            x = _read(before, examples, like) if before else data[start:stop]
            for name, value in zip(names, tf.nest.flatten(traced(x))):
                _write(name, examples, value)
            return i + 1

        done = _loop(batches.count, write_batch)[0]
        # Reading is no op with a state: only this makes it wait until everything is written.
        written = tf.strings.substr(tf.strings.as_string(done), 0, 0)
        self._like = traced.structured_outputs
        return [tf.strings.join([name, written]) for name in names]

    def read(self, names: list[Tensor], indices: Tensor) -> Structure:
        """Return the recorded activations of a batch."""
        return _read(names, indices, self._like)

    def _name(self, record: Record, step: int, tensor: int) -> Tensor:
        client = tf.strings.as_string(record["client_id"])
        return tf.strings.join([f"{self._folder}/", client, f"-{step % 2}-{tensor}-"])


class _Batches:
    """Batches as equal as possible: the statistics of a batch of one would be of little worth."""

    def __init__(self, num_examples: Tensor, batch_size: int) -> None:
        self._examples = num_examples
        self.count = (num_examples + batch_size - 1) // batch_size

    def bounds(self, i: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first example of batch i and the one after its last."""
        return self._start(i), self._start(i + 1)

    def _start(self, i: Tensor) -> Tensor:
        # i * examples // count, whose product need not fit into 32 bits.
        size, rest = self._examples // self.count, self._examples % self.count
        return i * size + i * rest // self.count


def _loop(count: Tensor, body: Callable[..., Structure], *values: Tensor) -> list[Tensor]:
    """Call body(i, *values) -> (i + 1, *values) for i = 0 ... count - 1."""
    start = (tf.constant(0), *values)
    return tf.while_loop(lambda i, *_: i < count, body, start, parallel_iterations=1)


def _empty(shape: Sequence[Tensor], dtype: tf.DType) -> Tensor:
    """Return a tensor of its own; that of `tf.zeros` may be a constant, which others share."""
    empty = tf.raw_ops.Empty(shape=tf.stack(shape), dtype=dtype)
    return tf.ensure_shape(empty, [None, *shape[1:]])


def _trace(
    function: Callable[[Structure], Structure], data: Structure
) -> tf.types.experimental.ConcreteFunction:
    """Trace the function of a batch once, so that the shapes of its results are known."""
    specs = tf.nest.map_structure(lambda t: tf.TensorSpec([None, *t.shape[1:]], t.dtype), data)
    return tf.function(function, autograph=False).get_concrete_function(specs)


def _write(prefix: Tensor, examples: Tensor, values: Tensor) -> None:
    def body(i: Tensor) -> Tensor:
        name = tf.strings.join([prefix, tf.strings.as_string(examples[i])])
        tf.io.write_file(name, tf.io.serialize_tensor(values[i]))
        return i + 1

    _loop(tf.shape(examples)[0], body)


def _read(prefixes: Sequence[Tensor], examples: Tensor, like: Structure) -> Structure:
    def read(prefix: Tensor, spec: tf.TensorSpec) -> Tensor:
        names = tf.strings.join([prefix, tf.strings.as_string(examples)])
        shape = spec.shape[1:]
        return tf.map_fn(
            lambda n: tf.ensure_shape(tf.io.parse_tensor(tf.io.read_file(n), spec.dtype), shape),
            names,
            fn_output_signature=tf.TensorSpec(shape, spec.dtype),
        )

    flat = [read(prefix, spec) for prefix, spec in zip(prefixes, tf.nest.flatten(like))]
    return tf.nest.pack_sequence_as(like, flat)
