"""Populations from arrays, data sets, TFF's ClientData and functions, loaded when needed."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import tiny
from tff_partial.core import clients

RNG = np.random.default_rng(0)


def pair(n=3):
    return RNG.normal(size=(n, 2)), np.arange(n) % 2


def dataset(x, y, batch=None, names=None):
    elements = (x, y) if names is None else collections.OrderedDict(zip(names, (x, y)))
    examples = tf.data.Dataset.from_tensor_slices(elements)
    return examples.batch(batch) if batch else examples


def check(population, ids, expected):
    assert list(population.ids) == ids
    assert len(population) == population.num_clients == len(ids)
    for i, (x, y) in enumerate(expected):
        found = population.client(i)
        np.testing.assert_array_equal(found[0], x.astype(np.float32))
        np.testing.assert_array_equal(found[1], y)
        assert (found[0].dtype, found[1].dtype) == (np.float32, np.int32)
        assert population.client_size(i) == len(y)


def test_arrays_and_data_sets():
    data = [pair(3), pair(5)]
    sets = [dataset(*data[0]), dataset(*data[1], batch=2)]
    check(clients.create(data), [0, 1], data)
    check(clients.create({"ann": data[0], "bob": data[1]}), ["ann", "bob"], data)
    check(clients.create(sets), [0, 1], data)
    named = {"a": dataset(*data[0], names="xy"), "b": dataset(*data[1], 2, ("pixels", "label"))}
    check(clients.create(named), ["a", "b"], data)
    check(clients.create([dataset(*data[0], names=("word", "next"))], label="next"), [0], data[:1])


def test_client_data_with_texts_as_ids():
    data = {"ann": pair(2), "bob": pair(4)}
    own = tff.simulation.datasets.TestClientData(
        {i: collections.OrderedDict(x=x, label=y) for i, (x, y) in data.items()}
    )
    check(clients.create(own), ["ann", "bob"], list(data.values()))
    x, y = clients.examples_of(own)
    assert sorted(y) == sorted([*data["ann"][1], *data["bob"][1]])
    assert x.shape == (6, 2)


def test_an_empty_data_set_is_a_client_without_examples():
    nothing = dataset(np.zeros([0, 2], np.float32), np.zeros([0], np.int32))
    x, y = clients.create([nothing, pair()]).client(0)
    assert (x.shape, y.shape) == ((0, 2), (0,))


def test_types_of_images_and_tokens_stay_and_columns_of_labels_are_flattened():
    images, labels = np.zeros([2, 4], np.uint8), np.array([[1.0], [0.0]])
    x, y = clients.examples_of((images, labels))
    assert (x.dtype, y.tolist()) == (np.uint8, [1, 0])
    assert clients.examples_of((np.zeros([2, 4], np.int64), labels))[0].dtype == np.int32


def test_a_million_clients_are_never_held():
    loaded = collections.Counter()

    def load(client):
        loaded[client] += 1
        return np.full([2, 3], client), np.zeros(2)

    population = clients.create(load, ids=1_000_000)
    assert not loaded
    assert population.client(999_999)[0][0, 0] == 999_999
    assert population.client_size(999_999) == 2
    assert loaded == {999_999: 1}
    assert population.mean_size() == 2
    assert loaded.total() <= 102
    for client in range(500):  # of which few stay in memory
        population.client(client)
    assert population._cached.cache_info().currsize <= 64
    known = clients.create(load, ids=["a", "b"], sizes=[7, 9])
    assert (known.client_size(1), known.mean_size()) == (9, 8)


def test_records_are_those_of_the_clients():
    data = tiny.client_data()
    records = clients.create(data).records([2, 0], seed=4, tiers=[1, 0])
    for record, (i, tier) in zip(records, ((2, 1), (0, 0))):
        (element,) = record
        assert (int(element["client_id"]), int(element["tier"])) == (i, tier)
        np.testing.assert_array_equal(element["x"], data[i][0])
    assert len(clients.create(data).records()) == 3


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (lambda: clients.create([]), "at least one. Received: 0"),
        (lambda: clients.create(3), "a list or dictionary .* Received: int"),
        (lambda: clients.create([pair()], ids=3), "ids must be given with a function"),
        (lambda: clients.create([pair()], sizes=[1, 2]), "each of 1 clients. Received: 2"),
        (lambda: clients.create([(1, 2, 3)]).client(0), "client 0: examples must be a pair"),
        (
            lambda: clients.create({"ann": (np.zeros(3), np.zeros(2))}).client(0),
            "client 'ann': lab",
        ),
        (lambda: clients.create([(np.zeros(2), [0.5, 1])]).client(0), "must be whole numbers"),
        (lambda: clients.create([dataset(*pair()).repeat()]).client(0), "must end"),
        (lambda: clients.create([dataset(*pair(), names="ab")]).client(0), "Received: .'a', 'b'"),
        (lambda: clients.create([tf.data.Dataset.range(3)]).client(0), "must have pairs"),
    ],
)
def test_what_is_no_population_is_refused(create, message):
    with pytest.raises(ValueError, match=message) as caught:
        create()
    assert "\n" not in str(caught.value)
