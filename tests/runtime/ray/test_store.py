import gc

import numpy as np
import tensorflow as tf

from tests.runtime.in_process import computations
from tff_partial.core import client_data
from tff_partial.runtime.in_process import compiler
from tff_partial.runtime.ray import wire
from tff_partial.runtime.ray.store import Store


def create():
    """A store, and the list of what it has put."""
    put = []
    return Store(lambda value: put.append(value) or len(put)), put


def variant(seed):
    x = np.full((4, 2), seed, np.float32)
    dataset = client_data.create_record(x, np.zeros(4), client_id=seed)
    return tf.data.experimental.to_variant(dataset)


def test_a_data_set_is_put_once_even_if_it_is_made_anew():
    store, put = create()
    first = variant(1)
    kept = store.data_set(first)
    assert store.data_set(first) == kept
    assert store.data_set(variant(1)) == kept  # another object of equal content
    assert store.data_set(variant(2)) != kept
    assert len(put) == 2
    assert store.bytes_put == sum(wire.size_of([packed]) for packed in put)


def test_an_object_that_is_gone_is_not_taken_for_another():
    store, put = create()
    for seed in range(50):
        store.data_set(variant(seed))  # ids are used again
    gc.collect()
    assert len(put) == 50
    assert len(store._by_id) <= 1


def test_graphs_are_forgotten_with_their_data_set():
    store, put = create()
    data = tf.data.experimental.to_variant(tf.data.Dataset.range(5).batch(2))
    assert store.data_set(data) == store.data_set(data)
    assert len(put) == 1
    assert not store._by_content


def test_what_clients_share_is_put_in_every_round():
    store, put = create()
    names = {store.shared([np.zeros(5, np.float32)]).name for _ in range(3)}
    assert len(names) == len(put) == 3
    assert store.bytes_put == 3 * 20


def test_a_computation_is_put_as_its_bytes():
    store, put = create()
    blocks = [compiler.compile_to_native(computations.create_round()) for _ in range(2)]
    names = [store.computation(block).name for block in (blocks[0], blocks[0])]
    assert names[0] == names[1]
    assert isinstance(put[0], bytes)
