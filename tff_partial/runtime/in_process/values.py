"""Arguments and results: between what users of TFF pass and get, and the leaves of a plan.

Nothing is serialized. Tensors and data sets are passed by reference; an array that is returned is a
read-only view of the tensor that holds it, as the arrays of TFF's own runtime are read-only too.
"""

import collections
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Callable, Optional

import attrs
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.compiler import array
from tensorflow_federated.python.core.impl.executors import value_serialization
from tensorflow_federated.python.core.impl.types import computation_types, type_conversions
from tensorflow_federated.python.core.impl.utils import tensorflow_utils
from typing_extensions import TypeAlias

from tff_partial.core.types import Array, Structure, Tensor, TffType
from tff_partial.runtime.in_process import sequences
from tff_partial.runtime.in_process.steps import LeafType, LeafValue, leaf_types

# How many specifications of data sets are remembered as checked.
_REMEMBERED = 10_000


class Ingest:
    """Checks an argument of a computation and flattens it to one value for each leaf.

    The argument has NumPy, Python or TensorFlow values in the containers of its type, a list with
    an entry for each client for a value at CLIENTS that is not all-equal, and a `tf.data.Dataset`
    or a list of elements for a sequence. An argument that is not of the type is a TypeError.
    """

    def __init__(self) -> None:
        self._accepted: set[tuple[int, str]] = set()

    def flatten(self, value: Structure, type_spec: TffType) -> list[LeafValue]:
        if isinstance(type_spec, tff.FederatedType):
            return self._federated(value, type_spec)
        if isinstance(type_spec, tff.StructType):
            return self._struct(value, type_spec)
        if isinstance(type_spec, tff.SequenceType):
            return [self._sequence(value, type_spec)]
        return [_tensor(value, type_spec)]

    def _federated(self, value: Structure, type_spec: tff.FederatedType) -> list[LeafValue]:
        if type_spec.all_equal:
            return self.flatten(value, type_spec.member)
        if not isinstance(value, (list, tuple)):
            raise TypeError(
                f"expected a list with a value for each client. Received: {type(value)}"
            )
        rows = [self.flatten(member, type_spec.member) for member in value]
        if rows:
            return [list(column) for column in zip(*rows)]
        return [[] for _ in leaf_types(type_spec.member)]

    def _struct(self, value: Structure, type_spec: tff.StructType) -> list[LeafValue]:
        elements = _elements(value)
        types = tff.structure.to_elements(type_spec)
        if len(elements) != len(types):
            raise TypeError(
                f"expected {len(types)} elements for {type_spec}. Received: {len(elements)}"
            )
        flat = []
        for (name, element), (expected, element_type) in zip(elements, types):
            if None not in (name, expected) and name != expected:
                raise TypeError(f"expected element {expected} of {type_spec}. Received: {name}")
            flat.extend(self.flatten(element, element_type))
        return flat

    def _sequence(self, value: Structure, type_spec: tff.SequenceType) -> Tensor:
        if isinstance(value, list):
            value = tensorflow_utils.make_data_set_from_elements(None, value, type_spec.element)
        if not isinstance(value, tf.data.Dataset):
            raise TypeError(
                f"expected a tf.data.Dataset or a list for {type_spec}. Received: {type(value)}"
            )
        # Clients are many and their specifications few; deriving the TFF type is slow.
        key = (id(type_spec), repr(value.element_spec))
        if key not in self._accepted:
            _check_elements(value, type_spec)
            if len(self._accepted) >= _REMEMBERED:
                self._accepted.clear()
            self._accepted.add(key)
        return tf.data.experimental.to_variant(value)


def _elements(value: Structure) -> list[tuple[Optional[str], Structure]]:
    """Return the (name, element) pairs of a container, of the usual ones in a shorter way."""
    if type(value) is collections.OrderedDict:
        return list(value.items())
    if type(value) in (list, tuple):
        return [(None, element) for element in value]
    return tff.structure.to_elements(tff.structure.from_container(value))


def _check_elements(dataset: tf.data.Dataset, type_spec: tff.SequenceType) -> None:
    element_type = computation_types.tensorflow_to_type(dataset.element_spec)
    # Names that are not in sorted order are ambiguous to tf.nest unless in an OrderedDict.
    value_serialization._check_container_compat_with_tf_nest(element_type)
    if not type_spec.is_assignable_from(tff.SequenceType(element_type)):
        raise TypeError(f"expected elements of {type_spec.element}. Received: {element_type}")


def _tensor(value: Structure, type_spec: tff.TensorType) -> LeafValue:
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


# id of an array that was returned to the user -> the array, and the tensor whose memory it shares.
_returned: dict[int, tuple["weakref.ref[Array]", Tensor]] = {}


def to_tensor(value: LeafValue, type_spec: LeafType) -> Tensor:
    """Return a leaf's value as the tensor that functions take.

    An array that came from a tensor becomes that tensor again, without a copy: what clients keep
    between rounds is returned and passed in again unchanged.
    """
    if isinstance(value, tf.Tensor):
        return value
    dtype = tf.as_dtype(type_spec.dtype.type)
    known = _returned.get(id(value))
    if known is not None and known[0]() is value:
        tensor = known[1]
        # A view can be given another shape, and a parameter can be of a wider type.
        if tensor.dtype == dtype and tensor.shape == value.shape:
            return tensor
    return tf.convert_to_tensor(value, dtype)


def on_device(value: LeafValue, type_spec: LeafType, device: str) -> Tensor:
    """Return a leaf's value as a tensor on a device; data sets and strings stay on the CPU."""
    tensor = to_tensor(value, type_spec)
    if tensor.device.endswith(device) or tensor.dtype in (tf.variant, tf.string):
        return tensor
    with tf.device(device):
        return tf.identity(tensor)


def to_numpy(value: LeafValue) -> LeafValue:
    """Return a tensor as an array that shares its memory."""
    return np.asarray(value) if isinstance(value, tf.Tensor) else value


Release: TypeAlias = Callable[[Iterator[LeafValue], int], Structure]
"""(Leaves, number of clients) -> result in the containers of its type: NumPy values and data sets,
a list of values at CLIENTS. A leaf that all clients share may be a single value."""


def create_release(type_spec: TffType) -> Release:
    """Look into a result's type once, not for every client."""
    if isinstance(type_spec, tff.FederatedType):
        member = create_release(type_spec.member)
        if type_spec.all_equal:
            return member
        width = len(leaf_types(type_spec.member))
        return lambda leaves, clients: [
            member(iter(row), clients) for row in _rows(leaves, width, clients)
        ]
    if isinstance(type_spec, tff.StructType):
        fields = [create_release(field) for _, field in tff.structure.to_elements(type_spec)]
        pack = _packer(type_spec)
        return lambda leaves, clients: pack([field(leaves, clients) for field in fields])
    if isinstance(type_spec, tff.SequenceType):
        return lambda leaves, clients: sequences.to_dataset(next(leaves), type_spec.element)
    return lambda leaves, clients: _to_user(next(leaves), type_spec)


def _rows(leaves: Iterator[LeafValue], width: int, clients: int) -> Iterable[tuple[LeafValue, ...]]:
    """Return the leaves of each client, from columns."""
    columns = [next(leaves) for _ in range(width)]
    if not columns:
        return [()] * clients
    return zip(*(c if isinstance(c, list) else [c] * clients for c in columns))


def _packer(type_spec: tff.StructType) -> Callable[[list[Structure]], Structure]:
    """Return what puts elements into the struct's container; TFF itself takes long for each."""
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


def _to_user(value: LeafValue, type_spec: tff.TensorType) -> Array:
    """Return a leaf as NumPy has it: an array, a scalar, or bytes for strings."""
    array_value = to_numpy(value)
    if type_spec.dtype.type is np.str_:
        texts = np.asarray(array_value, np.object_)
        encode = np.vectorize(tf.compat.as_bytes, otypes=[np.object_])
        return encode(texts)[()] if texts.size else texts
    result = np.asarray(array_value, type_spec.dtype)[()]
    is_array = type(result) is np.ndarray and result.dtype == array_value.dtype
    if isinstance(value, tf.Tensor) and is_array:
        key = id(result)
        _returned[key] = weakref.ref(result, lambda _: _returned.pop(key, None)), value
    return result
