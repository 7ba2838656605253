"""Arguments and results: between what users of TFF pass and get, and the leaves of a plan.

Nothing is serialised. Tensors and data sets are passed by reference; an array that is returned is a
read-only view of the tensor that holds it, as the arrays of TFF's own runtime are read-only too.
"""

import collections
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Callable, Optional

import attrs
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.compiler import array
from tensorflow_federated.python.core.impl.executors import value_serialization
from tensorflow_federated.python.core.impl.types import computation_types, type_conversions
from tensorflow_federated.python.core.impl.utils import tensorflow_utils

from tff_partial.runtime.in_process import sequences
from tff_partial.runtime.in_process.plan import leaves_of_type

# How many specifications of data sets are remembered as checked.
_REMEMBERED = 10_000


class Ingest:
    """Checks an argument of a computation and flattens it to one entry a leaf."""

    def __init__(self, type_spec: Any):
        self._type = type_spec
        self._accepted: set[tuple[int, str]] = set()

    def __call__(self, value: Any) -> list[Any]:
        """Flattens an argument.

        Args:
          value: numpy, Python or TensorFlow values in the containers of the type; a list with one
            entry a client for a value at CLIENTS that is not all-equal; a `tf.data.Dataset` or a
            list of elements for a sequence.

        Returns:
          A tensor, array or data-set variant for each leaf; a list of them, one a client, for a
          leaf at CLIENTS.

        Raises:
          TypeError: the value is not of the type.
        """
        return self._flatten(value, self._type)

    def _flatten(self, value: Any, type_spec: Any) -> list[Any]:
        if isinstance(type_spec, tff.FederatedType):
            return self._federated(value, type_spec)
        if isinstance(type_spec, tff.StructType):
            return self._struct(value, type_spec)
        if isinstance(type_spec, tff.SequenceType):
            return [self._sequence(value, type_spec)]
        return [_tensor(value, type_spec)]

    def _federated(self, value: Any, type_spec: Any) -> list[Any]:
        if type_spec.all_equal:
            return self._flatten(value, type_spec.member)
        if not isinstance(value, (list, tuple)):
            raise TypeError(
                f"expected a list with a value for each client. Received: {type(value)}"
            )
        rows = [self._flatten(member, type_spec.member) for member in value]
        if rows:
            return [list(column) for column in zip(*rows)]
        return [[] for _ in leaves_of_type(type_spec.member)]

    def _struct(self, value: Any, type_spec: Any) -> list[Any]:
        values = _elements(value)
        types = tff.structure.to_elements(type_spec)
        if len(values) != len(types):
            raise TypeError(
                f"expected {len(types)} elements for {type_spec}. Received: {len(values)}"
            )
        flat = []
        for (name, element), (expected, element_type) in zip(values, types):
            if None not in (name, expected) and name != expected:
                raise TypeError(f"expected element {expected} of {type_spec}. Received: {name}")
            flat.extend(self._flatten(element, element_type))
        return flat

    def _sequence(self, value: Any, type_spec: Any) -> Any:
        if isinstance(value, list):
            value = tensorflow_utils.make_data_set_from_elements(None, value, type_spec.element)
        if not isinstance(value, tf.data.Dataset):
            raise TypeError(
                f"expected a tf.data.Dataset or a list for {type_spec}. Received: {type(value)}"
            )
        # Clients are many and their specifications few; deriving the TFF type is slow.
        key = (id(type_spec), repr(value.element_spec))
        if key not in self._accepted:
            _check_elements(value.element_spec, type_spec)
            if len(self._accepted) >= _REMEMBERED:
                self._accepted.clear()
            self._accepted.add(key)
        return tf.data.experimental.to_variant(value)


def _elements(value: Any) -> list[tuple[Optional[str], Any]]:
    """The (name, element) pairs of a container; the shorter way for the usual ones."""
    if type(value) is collections.OrderedDict:
        return list(value.items())
    if type(value) in (list, tuple):
        return [(None, element) for element in value]
    return tff.structure.to_elements(tff.structure.from_container(value))


def _check_elements(spec: Any, type_spec: Any) -> None:
    element_type = computation_types.tensorflow_to_type(spec)
    # Names that are not in sorted order are ambiguous to tf.nest unless in an OrderedDict.
    value_serialization._check_container_compat_with_tf_nest(element_type)
    if not type_spec.is_assignable_from(tff.SequenceType(element_type)):
        raise TypeError(f"expected elements of {type_spec.element}. Received: {element_type}")


def _tensor(value: Any, type_spec: Any) -> Any:
    dtype = type_spec.dtype.type
    if type(value) is np.ndarray and (value.dtype, value.shape) == (dtype, type_spec.shape):
        return value
    if isinstance(value, tf.Variable):
        value = value.read_value()
    if isinstance(value, tf.Tensor):
        if value.dtype == dtype and value.shape.is_compatible_with(type_spec.shape):
            return value
        value = value.numpy()
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        if not all(array.is_compatible_dtype(item, dtype) for item in tf.nest.flatten(value)):
            raise TypeError(f"expected a value of {type_spec}. Received: {value}")
        value = np.asarray(value, dtype)
    if not array.is_compatible_shape(value, type_spec.shape):
        raise TypeError(f"expected a value of {type_spec}. Received: shape {np.shape(value)}")
    if not array.is_compatible_dtype(value, dtype):
        raise TypeError(f"expected a value of {type_spec}. Received: {np.asarray(value).dtype}")
    return value


# What Eigen's kernels take for granted, in bytes.
_ALIGNMENT = 64

# id of an array that was handed out -> the array, and the tensor whose memory it shares.
_handed_out: dict[int, tuple[Any, Any]] = {}


def to_tensor(value: Any, type_spec: Any) -> Any:
    """A leaf's value as the tensor that functions take.

    An array that came from a tensor becomes that tensor again, without a copy: what clients keep
    between rounds is handed out and in unchanged.
    """
    if isinstance(value, tf.Tensor):
        return value
    dtype = tf.as_dtype(type_spec.dtype.type)
    known, tensor = _handed_out.get(id(value), (None, None))
    # A view can be given another shape, and a parameter can be of a wider type.
    is_known = known is not None and known() is value
    if is_known and tensor.dtype == dtype and tensor.shape == value.shape:
        return tensor
    return tf.convert_to_tensor(value, dtype)


def aligned_copy(value: Any) -> np.ndarray:
    """A copy in memory that `as_tensor` can share: TensorFlow's kernels want it aligned."""
    value = np.asarray(value)
    memory = np.empty(value.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
    copy[...] = value
    return copy


def as_tensor(value: np.ndarray) -> tf.Tensor:
    """An array of `aligned_copy` as a tensor of the same memory; nobody may change it any more."""
    return tf.experimental.dlpack.from_dlpack(value.__dlpack__())


class Release:
    """Makes the result for the user from the values of its leaves."""

    def __init__(self, type_spec: Any):
        """Takes the type with its Python containers."""
        self._release = _releaser(type_spec)

    def __call__(self, leaves: Iterator[Any], clients: int) -> Any:
        """Returns containers as in the type with numpy values and data sets.

        Args:
          leaves: as `Ingest` returns them; a leaf that all clients share may be a single value.
          clients: the number of clients; a value at CLIENTS is a list of so many.
        """
        return self._release(leaves, clients)


def _releaser(type_spec: Any) -> Callable[[Iterator[Any], int], Any]:
    """(Leaves, number of clients) -> result; types are looked into once, not for every client."""
    if isinstance(type_spec, tff.FederatedType):
        member = _releaser(type_spec.member)
        if type_spec.all_equal:
            return member
        width = len(leaves_of_type(type_spec.member))
        return lambda leaves, clients: [
            member(iter(row), clients) for row in _rows(leaves, width, clients)
        ]
    if isinstance(type_spec, tff.StructType):
        fields = [_releaser(field) for _, field in tff.structure.to_elements(type_spec)]
        pack = _packer(type_spec)
        return lambda leaves, clients: pack([field(leaves, clients) for field in fields])
    if isinstance(type_spec, tff.SequenceType):
        return lambda leaves, clients: sequences.to_dataset(next(leaves), type_spec.element)
    return lambda leaves, clients: _to_user(next(leaves), type_spec)


def _rows(leaves: Iterator[Any], width: int, clients: int) -> Any:
    """The leaves of each client, from columns."""
    columns = [next(leaves) for _ in range(width)]
    if not columns:
        return [()] * clients
    return zip(*(c if isinstance(c, list) else [c] * clients for c in columns))


def _packer(type_spec: Any) -> Callable[[list[Any]], Any]:
    """Puts the elements of a struct into its container; TFF itself takes long for each."""
    names = [name for name, _ in tff.structure.to_elements(type_spec)]
    like = type_conversions.type_to_py_container(  # checks the type
        tff.structure.Struct([(name, []) for name in names]), type_spec
    )
    container = type(like)
    if hasattr(container, "_fields") or attrs.has(container):
        return lambda elements: container(**dict(zip(names, elements)))
    if names and names[0] is not None:
        return lambda elements: container(zip(names, elements))
    return container


def to_numpy(value: Any) -> Any:
    """A tensor as an array that shares its memory."""
    return np.asarray(value) if isinstance(value, tf.Tensor) else value


def _to_user(value: Any, type_spec: Any) -> Any:
    tensor, value = value, to_numpy(value)
    if type_spec.dtype.type is np.str_:
        value = np.asarray(value, np.object_)
        encoded = np.vectorize(tf.compat.as_bytes, otypes=[np.object_])
        return encoded(value)[()] if value.size else value
    found = np.asarray(value, type_spec.dtype)[()]
    if isinstance(tensor, tf.Tensor) and type(found) is np.ndarray and found.dtype == value.dtype:
        _remember(found, tensor)
    return found


def _remember(value: np.ndarray, tensor: Any) -> None:
    key = id(value)
    _handed_out[key] = weakref.ref(value, lambda _: _handed_out.pop(key, None)), tensor
