import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_partial.core import client_data
from tff_partial.runtime.ray import wire

SEQUENCE = tff.SequenceType(np.int32)


def record(seed=0):
    x = np.random.default_rng(seed).integers(0, 256, (5, 3)).astype(np.uint8)
    return client_data.create_record(x, np.arange(5), client_id=3)


def variant(dataset):
    return tf.data.experimental.to_variant(dataset)


def test_a_record_is_sent_as_its_arrays():
    packed = wire.pack_sequence(variant(record()))
    assert isinstance(packed, wire.PackedElement)
    expected = record().get_single_element()
    again = wire.unpack(packed, SEQUENCE)
    actual = tf.data.experimental.from_variant(again, record().element_spec).get_single_element()
    assert list(actual) == list(expected)
    for name in expected:
        np.testing.assert_array_equal(actual[name], expected[name])


@pytest.mark.parametrize(
    "dataset",
    [
        tf.data.Dataset.range(7).batch(2),
        tf.data.Dataset.from_tensors(1).map(lambda x: x + 1),
        tf.data.Dataset.from_tensor_slices(["a", "b"]),
    ],
)
def test_other_data_sets_are_sent_as_graphs(dataset):
    packed = wire.pack(variant(dataset), SEQUENCE)
    assert isinstance(packed, wire.PackedGraph)
    again = tf.data.experimental.from_variant(wire.unpack(packed, SEQUENCE), dataset.element_spec)
    for actual, expected in zip(again, dataset):
        np.testing.assert_array_equal(actual, expected)
    assert len(list(again)) == len(list(dataset))


def test_equal_records_have_one_digest_and_others_another():
    digests = [wire.digest(wire.pack_sequence(variant(record(seed)))) for seed in (0, 0, 1)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    "value", [np.arange(6, dtype=np.float32).reshape(2, 3), 3.5, True, "text", [b"a", b"bc"]]
)
def test_tensors_come_back_as_they_were(value):
    tensor = tf.constant(value)
    shape = tensor.shape.as_list()
    type_spec = tff.TensorType(
        np.str_ if tensor.dtype == tf.string else tensor.dtype.as_numpy_dtype, shape
    )
    for sent in (tensor, tensor.numpy()):
        again = wire.unpack(wire.pack(sent, type_spec), type_spec)
        assert again.dtype == tensor.dtype
        np.testing.assert_array_equal(again, tensor)


def test_bfloat16_stays_bfloat16():
    tensor = tf.constant([1.5, 2.0], tf.bfloat16)
    type_spec = tff.TensorType(tf.bfloat16.as_numpy_dtype, [2])
    again = wire.unpack(wire.pack(tensor, type_spec), type_spec)
    assert again.dtype == tf.bfloat16
    np.testing.assert_array_equal(again, tensor)


def test_size_is_that_of_the_content():
    packed = [np.zeros(3), wire.PackedElement([np.zeros(2, np.uint8)]), wire.PackedGraph(b"12345")]
    assert wire.size_of(packed) == 24 + 2 + 5
