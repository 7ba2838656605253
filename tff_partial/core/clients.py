"""The clients of a population, each with its examples, loaded when they are asked for.

    clients([(x, y), (x, y)])                   arrays of each client
    clients({"ann": (x, y), "bob": dataset})    by id; `tf.data.Dataset`s of examples or batches
    clients(client_data)                        a `tff.simulation.datasets.ClientData`
    clients(load, ids=1_000_000)                id -> arrays or data set; also ids=["ann", "bob"]

Nobody holds all of them: a client is loaded when it is drawn, and a few stay in memory.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

import numpy as np

from tff_partial.core import client_data
from tff_partial.core.lazy import tf
from tff_partial.core.types import Array, ClientDataset

Examples = tuple[Array, Array]
"""Examples [n, ...] and labels int32 [n]."""
ClientId = Union[int, str]

_KEPT, _BATCH, _SAMPLED = 64, 1024, 100
_LABELS = ("y", "label", "labels", "target")
# 64 bits are NumPy's default and nobody's choice.
_SHORT = {"float64": np.float32, "int64": np.int32, "float16": np.float32}


class Clients:
    """A population of clients.

    Attributes:
      ids: The id of each client, whose number is its position.
      label: Name of the label in the elements of data sets, where it is not a usual one.
    """

    def __init__(
        self,
        ids: Sequence[ClientId],
        load: Callable[[Any], object],
        sizes: Optional[Sequence[int]] = None,
        label: Optional[str] = None,
    ) -> None:
        if not len(ids):
            raise ValueError("clients must be at least one. Received: 0 clients")
        if sizes is not None and len(sizes) != len(ids):
            raise ValueError(
                f"sizes must have an entry for each of {len(ids)} clients. Received: {len(sizes)}"
            )
        self.ids, self._load, self._sizes, self.label = ids, load, sizes, label
        self._seen: dict[int, int] = {}
        self._cached = functools.lru_cache(maxsize=_KEPT)(self._examples)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def num_clients(self) -> int:
        """The number of clients."""
        return len(self.ids)

    def client(self, client: int) -> Examples:
        """Return the examples [n, ...] and labels int32 [n] of a client by its number."""
        return self._cached(client)

    def client_size(self, client: int) -> int:
        """Return how many examples a client has; it is loaded if nobody has said so before."""
        if self._sizes is not None:
            return int(self._sizes[client])
        if client not in self._seen:
            self.client(client)
        return self._seen[client]

    def mean_size(self) -> float:
        """Return the mean number of examples; if not known, of 100 clients evenly spaced."""
        if self._sizes is not None:
            return float(np.mean(self._sizes))
        step = max(len(self) // _SAMPLED, 1)
        return float(np.mean([self.client_size(i) for i in range(0, len(self), step)]))

    def records(
        self,
        clients: Optional[Sequence[int]] = None,
        seed: int = 0,
        tiers: Optional[Sequence[int]] = None,
    ) -> list[ClientDataset]:
        """Return what `next` of a process takes.

        Args:
          clients: The numbers of the clients; all by default.
          seed: The run's seed.
          tiers: Index of the tier of each of them; 0 by default.
        """
        chosen = range(len(self)) if clients is None else clients
        pairs = zip(chosen, tiers or [0] * len(chosen))
        return [client_data.create_record(*self.client(i), i, seed, tier) for i, tier in pairs]

    def _examples(self, client: int) -> Examples:
        try:
            x, y = examples_of(self._load(self.ids[client]), self.label)
        except ValueError as error:
            raise ValueError(f"client {self.ids[client]!r}: {error}") from error
        self._seen[client] = len(y)
        return x, y


def create(
    source: object,
    ids: Union[int, Sequence[ClientId], None] = None,
    sizes: Optional[Sequence[int]] = None,
    label: Optional[str] = None,
) -> Clients:
    """Return a population of clients.

    Args:
      source: A list or dictionary of clients, each a pair of examples and labels or a
        `tf.data.Dataset`; a `tff.simulation.datasets.ClientData`; or a function from an id to one
        of these.
      ids: For a function, the ids, or how many there are.
      sizes: Number of examples of each client, if known: else a client's is known once it has been
        loaded.
      label: Name of the label in the elements of data sets that are dictionaries, where it is not
        y, label, labels or target.

    Raises:
      ValueError: If the source is none of these, or nobody is in it.
    """
    if isinstance(source, Clients):
        return source
    if ids is not None:
        if not callable(source):
            raise ValueError(f"ids must be given with a function. Received: {type(source)}")
        return Clients(range(ids) if isinstance(ids, int) else ids, source, sizes, label)
    if hasattr(source, "create_tf_dataset_for_client") and hasattr(source, "client_ids"):
        return Clients(source.client_ids, source.create_tf_dataset_for_client, sizes, label)
    if isinstance(source, Mapping):
        return Clients(list(source), source.__getitem__, sizes, label)
    if isinstance(source, Sequence) and not isinstance(source, str):
        return Clients(range(len(source)), source.__getitem__, sizes, label)
    raise ValueError(
        "clients must be a list or dictionary of arrays or data sets, a ClientData, or a function "
        f"with its ids. Received: {type(source).__name__}"
    )


def examples_of(value: Any, label: Optional[str] = None) -> Examples:
    """Return examples and labels from a pair of arrays, a `tf.data.Dataset` or all of a ClientData.

    A data set has pairs or dictionaries with two entries as elements, examples or batches of them.
    Numbers of 64 bits become 32 bits wide.

    Raises:
      ValueError: If it is neither, or labels are not whole numbers, one an example.
    """
    if hasattr(value, "create_tf_dataset_from_all_clients"):
        value = value.create_tf_dataset_from_all_clients(seed=0)
    if hasattr(value, "element_spec"):
        value = _read(value, label)
    is_pair = isinstance(value, (tuple, list)) and len(value) == 2
    if not is_pair:
        raise ValueError(
            "examples must be a pair (x, y) of arrays or a tf.data.Dataset. "
            f"Received: {type(value).__name__}"
        )
    x, y = (np.asarray(part) for part in value)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim != 1 or len(x) != len(y) or not np.array_equal(y, y.astype(np.int32)):
        raise ValueError(
            "labels must be whole numbers, one for each example. Received: labels of shape "
            f"{list(y.shape)} and type {y.dtype}, examples of shape {list(x.shape)}"
        )
    return np.asarray(x, _SHORT.get(str(x.dtype), x.dtype)), y.astype(np.int32)


def _read(dataset: tf.data.Dataset, label: Optional[str]) -> Examples:
    """Return the elements of a data set as arrays."""
    spec = dataset.element_spec
    names = _names(spec, label)
    if names is None and not (isinstance(spec, (tuple, list)) and len(spec) == 2):
        raise ValueError(
            "a data set must have pairs (x, y) or dictionaries of an example and its label. "
            f"Received: elements {spec}"
        )
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError("a data set must end. Received: one that repeats for ever")
    x, y = (spec[name] for name in names or (0, 1))
    if y.shape.rank == 0:
        dataset = dataset.batch(_BATCH)
    parts = [
        tuple(batch[name] for name in names or (0, 1)) for batch in dataset.as_numpy_iterator()
    ]
    if not parts:
        shape = x.shape if y.shape.rank == 0 else x.shape[1:]
        return np.zeros([0, *shape], x.dtype.as_numpy_dtype), np.zeros([0], np.int32)
    xs, ys = zip(*parts)
    return np.concatenate(xs), np.concatenate(ys)


def _names(spec: Any, label: Optional[str]) -> Optional[tuple[str, str]]:
    """Return the names of example and label in the elements of a data set, if they have names."""
    if not isinstance(spec, Mapping):
        return None
    labels = [label] if label else [name for name in _LABELS if name in spec]
    others = [name for name in spec if name not in labels]
    if len(labels) != 1 or labels[0] not in spec or len(others) != 1:
        raise ValueError(
            "a data set's elements must have a label and one more entry; clients(..., label=...) "
            f"names the label. Received: {sorted(spec)}"
        )
    return others[0], labels[0]
