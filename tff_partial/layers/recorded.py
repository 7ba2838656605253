"""The multi-step forward pass of EmbracingFL, and where its output is kept.

    D <- the client's examples
    for each step (a range of blocks that fits into the client's memory):
        D <- these blocks applied to D, a batch at a time, without gradient
    return D

The blocks of one step are all that a client holds at a time; it trains on what the last one
returned, the record. On disk the steps run as they stand here; in memory their order does not
matter and a simulation does better to take one batch after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from tff_partial.core.lazy import tf
from tff_partial.core.model import Cut, Model

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
    ) -> None:
        self._model, self._cut = model, cut
        self._steps = [model.blocks[start:stop] for start, stop in steps]
        self._statistics = statistics
        self.batch_size = batch_size

    def set_seed(self, record: Any, batch: Any) -> None:
        """Determines the augmentation of a batch; local steps count up from the same seed."""
        if self._model.is_random:
            self._model.set_seed(record["seed"] - tf.stack([batch + 1, 0]))

    def functions(self) -> list[Callable[[Any], Any]]:
        """What each step does to a batch; the first one also prepares the examples."""
        model = self._model
        blocks = self._steps or [[]]

        def first(x: Any) -> Any:
            return self._forward(model.preprocess(model.augment(x)), blocks[0])

        found: list[Callable[[Any], Any]] = [first]
        found += [lambda x, b=b: self._forward(x, b) for b in blocks[1:]]  # type: ignore[misc]
        if self._cut.half:
            found.append(lambda x: model.record_half(model.blocks[self._cut.blocks], x))
        return found

    def _forward(self, x: Any, blocks: Sequence[Any]) -> Any:
        with self._model.batch_statistics(static_only=self._statistics == "moving"):
            return self._model.forward(x, training=False, blocks=blocks)


def in_memory(recorder: Recorder, record: Any) -> Any:
    """The record of all examples: a tensor or a structure of tensors [n, ...].

    A batch goes through all steps before the next one does, so that what one step hands to the
    next is never there for all examples: the same result with less memory.
    """

    def all_steps(x: Any) -> Any:
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

    def body(i: Any, *found: Any) -> Any:
        recorder.set_seed(record, i)
        start, stop = batches.bounds(i)
        rows = tf.range(start, stop)
        values = tf.nest.flatten(traced(data[start:stop]))
        return (i + 1, *(tf.raw_ops.InplaceUpdate(x=f, i=rows, v=v) for f, v in zip(found, values)))

    _, *found = _loop(batches.count, body, *empty)
    return tf.nest.pack_sequence_as(traced.structured_outputs, found)


class Disk:
    """Keeps the record in files, so that a client's memory holds no more than a batch of it.

    A file holds one tensor of one example: `<folder>/<client id>-<step % 2>-<tensor>-<example>`.
    The next round overwrites it, so a folder is for one run and client ids must be unique. It is on
    the host that trains the client.
    """

    def __init__(self, recorder: Recorder, folder: str) -> None:
        self._recorder, self._folder = recorder, folder
        self._like: Any = None

    def write(self, record: Any) -> Any:
        """Records; returns the beginning of the files' names, a string for each tensor."""
        data = record["x"]
        num_examples = tf.shape(data)[0]
        batches = _Batches(num_examples, self._recorder.batch_size)
        names = None
        for step, function in enumerate(self._recorder.functions()):
            traced = _trace(function, data if names is None else self._like)
            outputs = traced.outputs
            before, like = names, self._like

            def write_batch(i: Any, before: Any = before, like: Any = like) -> Any:
                self._recorder.set_seed(record, i)
                start, stop = batches.bounds(i)
                examples = tf.range(start, stop)
                x = data[start:stop] if before is None else _read(before, examples, like)
                values = tf.nest.flatten(traced(x))  # noqa: B023  (called in this round)
                for j, value in enumerate(values):
                    _write(self._name(record, step, j), examples, value)  # noqa: B023
                return i + 1

            done = _loop(batches.count, write_batch)[0]
            # Reading is no op with a state: only this makes it wait until everything is written.
            written = tf.strings.substr(tf.strings.as_string(done), 0, 0)
            names = [
                tf.strings.join([self._name(record, step, j), written]) for j in range(len(outputs))
            ]
            self._like = traced.structured_outputs
        return names

    def read(self, names: Any, indices: Any) -> Any:
        """The record of a batch."""
        return _read(names, indices, self._like)

    def _name(self, record: Any, step: int, tensor: int) -> Any:
        client = tf.strings.as_string(record["client_id"])
        return tf.strings.join([f"{self._folder}/", client, f"-{step % 2}-{tensor}-"])


class _Batches:
    """Batches as equal as possible: the statistics of a batch of one would be of little worth."""

    def __init__(self, num_examples: Any, batch_size: int) -> None:
        self._examples = num_examples
        self.count = (num_examples + batch_size - 1) // batch_size

    def bounds(self, i: Any) -> tuple[Any, Any]:
        return self._start(i), self._start(i + 1)

    def _start(self, i: Any) -> Any:
        # i * examples // count, whose product need not fit into 32 bits.
        size, rest = self._examples // self.count, self._examples % self.count
        return i * size + i * rest // self.count


def _loop(count: Any, body: Callable[..., Any], *values: Any) -> Any:
    """Calls body(i, *values) -> (i + 1, *values) for i = 0 ... count - 1."""
    return tf.while_loop(
        lambda i, *_: i < count, body, (tf.constant(0), *values), parallel_iterations=1
    )


def _empty(shape: Sequence[Any], dtype: Any) -> Any:
    """A tensor of its own; that of `tf.zeros` may be a constant, which others share."""
    found = tf.raw_ops.Empty(shape=tf.stack(shape), dtype=dtype)
    return tf.ensure_shape(found, [None, *shape[1:]])


def _trace(function: Callable[[Any], Any], data: Any) -> Any:
    """The function of a batch, traced once, so that the shapes of its results are known."""
    specs = tf.nest.map_structure(lambda t: tf.TensorSpec([None, *t.shape[1:]], t.dtype), data)
    return tf.function(function, autograph=False).get_concrete_function(specs)


def _write(prefix: Any, examples: Any, values: Any) -> None:
    def body(i: Any) -> Any:
        name = tf.strings.join([prefix, tf.strings.as_string(examples[i])])
        tf.io.write_file(name, tf.io.serialize_tensor(values[i]))
        return i + 1

    _loop(tf.shape(examples)[0], body)


def _read(prefixes: Sequence[Any], examples: Any, like: Any) -> Any:
    def read(prefix: Any, spec: Any) -> Any:
        names = tf.strings.join([prefix, tf.strings.as_string(examples)])
        shape = spec.shape[1:]
        return tf.map_fn(
            lambda n: tf.ensure_shape(tf.io.parse_tensor(tf.io.read_file(n), spec.dtype), shape),
            names,
            fn_output_signature=tf.TensorSpec(shape, spec.dtype),
        )

    flat = [read(prefix, spec) for prefix, spec in zip(prefixes, tf.nest.flatten(like))]
    return tf.nest.pack_sequence_as(like, flat)
