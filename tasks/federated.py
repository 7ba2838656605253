"""A task's data, dealt out to clients."""

from __future__ import annotations

import pathlib
from typing import Callable, Optional

import numpy as np

from tff_partial.core import checks

from . import id_files
from . import partition as partition_lib
from .task import Arrays, Task

DATA_KINDS = ("auto", "embedded", "tfds")


class FederatedData:
    """The clients' training data, made when asked for, and the test data.

    Attributes:
      num_clients: The population.
      test_x: Test inputs as stored, uint8 images or int32 tokens or float32 features [n, ...].
      test_y: Test labels, int32 [n].
      real: False for embedded data.
      description: A label for results, 'embedded: ...', 'real: ...' or 'generated: ...'.
      num_classes: Classes.
      input_shape: One input, as stored and as the model gets it.
      x_dtype: NumPy type of inputs as stored.
    """

    def __init__(
        self,
        client_fn: Callable[[int], tuple[np.ndarray, np.ndarray]],
        size_fn: Callable[[int], int],
        num_clients: int,
        test: tuple[np.ndarray, np.ndarray],
        num_classes: int,
        description: str,
        real: bool,
        mean_size_fn: Optional[Callable[[], float]] = None,
    ) -> None:
        self._mean_size_fn = mean_size_fn
        self._client_fn, self._size_fn = client_fn, size_fn
        self.num_clients, self.num_classes = num_clients, num_classes
        self.test_x, self.test_y = test
        self.description, self.real = description, real
        self.input_shape: tuple[int, ...] = self.test_x.shape[1:]
        self.x_dtype: np.dtype = self.test_x.dtype

    def client(self, client: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the training inputs [n, ...] and labels int32 [n] of a client."""
        return self._client_fn(self._checked(client))

    def client_size(self, client: int) -> int:
        """Return how many training examples a client has."""
        return self._size_fn(self._checked(client))

    def mean_size(self) -> float:
        """Return the mean number of training examples of a client."""
        if self._mean_size_fn is not None:
            return self._mean_size_fn()
        return sum(map(self._size_fn, range(self.num_clients))) / self.num_clients

    def _checked(self, client: int) -> int:
        if not 0 <= client < self.num_clients:
            raise IndexError(
                f"client must be in [0, {self.num_clients}). Received: client={client}"
            )
        return client


def load(
    task: Task,
    data: str = "auto",
    data_dir: Optional[str] = None,
    partition: Optional[str] = None,
    clients: Optional[int] = None,
    seed: int = 0,
    log: Callable[[str], None] = print,
    train_examples: Optional[int] = None,
) -> FederatedData:
    """Load a task's data and deal it out.

    Args:
      task: One of `tasks.TASKS`, or your own.
      data: 'embedded'; 'tfds' for the real data, downloaded where necessary; 'auto' for the real
        data where they are prepared in `data_dir` and embedded data elsewhere, with one line that
        says so.
      data_dir: Where real data are; None for the default of the library that downloads them.
      partition: A rule of `tasks.partition`, as text; None for that of `task.demo`.
      clients: The population; None for that of `task.demo`.
      seed: Of the partition and of embedded data.
      log: Gets the line of 'auto'.
      train_examples: If given, so many random training examples are dealt out, instead of all.

    Raises:
      DataError: when real data cannot be read or downloaded.
      ValueError: for a partition that does not fit.
    """
    checks.one_of("data", data, DATA_KINDS)
    partition = task.demo.partition if partition is None else partition
    clients = task.demo.clients if clients is None else clients
    if task.generate is not None:
        if train_examples is not None:
            raise ValueError(
                f"train_examples must not be given for {task.name}, which is generated. "
                f"Received: train_examples={train_examples}"
            )
        return task.generate(partition, clients, seed)
    rule, arguments = partition_lib.parse(partition)
    arrays = _load_arrays(task, data, data_dir, seed, log)
    if rule == "ids":
        arrays = _owned(arrays, clients, data_dir, *arguments)
    if train_examples is not None:
        arrays = _some(arrays, train_examples, seed)
    dealt = partition_lib.create(partition, arrays.train_y, clients, seed, arrays.writers)

    def examples(client: int) -> tuple[np.ndarray, np.ndarray]:
        indices = dealt[client]
        return arrays.train_x[indices], arrays.train_y[indices]

    return FederatedData(
        examples,
        lambda client: int(dealt.sizes[client]),
        clients,
        (arrays.test_x, arrays.test_y),
        task.num_classes,
        arrays.description,
        arrays.real,
    )


def _owned(
    arrays: Arrays, clients: int, data_dir: Optional[str], file: str, each: int = 1
) -> Arrays:
    """Return the same data with the owners in a file, `each` a client, in place of writers."""
    ids = id_files.read(file, data_dir, len(arrays.train_y))
    used = f"{clients * each:,} of {len(np.unique(ids)):,} owners in {pathlib.Path(file).name}"
    return arrays._replace(writers=ids, description=f"{arrays.description}, {used}")


def _some(arrays: Arrays, count: int, seed: int) -> Arrays:
    """Return the same data with `count` random training examples."""
    total = len(arrays.train_y)
    if not 1 <= count <= total:
        raise ValueError(
            f"train_examples must be from 1 to {total}. Received: train_examples={count}"
        )
    chosen = np.random.default_rng([seed, 0x50AE]).permutation(total)[:count]
    return arrays._replace(
        train_x=arrays.train_x[chosen],
        train_y=arrays.train_y[chosen],
        writers=None if arrays.writers is None else arrays.writers[chosen],
        description=f"{arrays.description}, {count:,} training examples",
    )


def _load_arrays(
    task: Task, data: str, data_dir: Optional[str], seed: int, log: Callable[[str], None]
) -> Arrays:
    if task.load_embedded is None or task.load_real is None or task.is_prepared is None:
        raise ValueError(f"{task.name} must have its loaders")
    if task.has_real(data, data_dir):
        return task.load_real(data_dir)
    arrays = task.load_embedded(seed)
    if data == "auto":
        log(
            f"{task.name}: using small embedded data ({arrays.description.partition(': ')[2]}); "
            "for the real data use --data=tfds (downloads) or --data_dir=<folder where "
            f"{task.tfds_name or task.name} is prepared>"
        )
    return arrays
