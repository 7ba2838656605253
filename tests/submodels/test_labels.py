"""What moving a tensor does to its owners, against moving an array of owners itself."""

import numpy as np
import pytest

from tff_partial.submodels import labels as moving
from tff_partial.submodels.labels import NotFollowed
from tff_partial.submodels.neurons import Neurons


def spread(labels, shape):
    """The owner of every element; at most one axis has some."""
    owners = np.zeros(shape, int)
    for i, axis in enumerate(labels):
        if axis is not None:
            owners += np.reshape(axis, [-1 if i == j else 1 for j in range(len(shape))])
    return owners


@pytest.mark.parametrize(
    ("before", "labelled", "after"),
    [
        ((1, 3, 2, 5), 3, (1, 30)),
        ((1, 3, 5), 1, (1, 15)),
        ((1, 30), 1, (1, 3, 2, 5)),
        ((1, 3, 2, 5), 3, (1, 6, 5)),
        ((1, 4, 6), 2, (4, 6)),
        ((1, 2, 3, 4), 2, (1, 2, 12)),
        ((1, 2, 6), 2, (1, 2, 2, 3)),
        ((1, 3, 4), 2, (1, 3, 1, 4)),
        ((1, 5, 1), 2, (1, 5)),
    ],
)
def test_reshape(before, labelled, after):
    neurons = Neurons()
    labels = tuple(neurons.new(n) if i == labelled else None for i, n in enumerate(before))
    found = moving.reshape(neurons, labels, (None, *before[1:]), (None, *after[1:]))
    roots, _ = neurons.roots()
    expected = roots[spread(labels, before).reshape(after)]
    np.testing.assert_array_equal(roots[spread(found, after)], expected)


@pytest.mark.parametrize(
    ("before", "labelled", "after"),
    [((None, 4, 6), (1, 2), (None, 24)), ((None, 6), (1,), (None, 2)), ((2, 4), (1,), (4, 2))],
)
def test_a_reshape_that_cannot_be_followed(before, labelled, after):
    neurons = Neurons()
    labels = tuple(neurons.new(n) if i in labelled else None for i, n in enumerate(before))
    with pytest.raises(NotFollowed):
        moving.reshape(neurons, labels, before, after)


def test_broadcasting_repeats_axes_of_size_one():
    neurons = Neurons()
    a, one, b = neurons.new(4), neurons.new(1), neurons.new(4)
    (none, axis) = moving.broadcast(
        neurons, [((None, a), (None, 4)), ((None, one), (None, 1)), ((b,), (4,)), ((), ())], 2
    )
    assert none is None
    assert axis is a
    roots, whole = neurons.roots()
    assert roots[b].tolist() == a.tolist()
    assert roots[one].tolist() == one.tolist()
    assert whole.tolist() == [0]
    with pytest.raises(NotFollowed, match="different numbers"):
        moving.join(neurons, [a, neurons.new(3)])


def test_concatenation_puts_nobodys_positions_between():
    neurons = Neurons()
    a, b = neurons.new(2), neurons.new(3)
    operands = [((None, a), (None, 2)), ((None, None), (None, 2)), ((None, b), (None, 3))]
    (_, axis) = moving.concat(neurons, operands, -1, 2)
    assert axis.tolist() == [*a, 0, 0, *b]


def test_what_adds_up_channels_is_refused():
    neurons = Neurons()
    labels = (None, None, neurons.new(3))
    assert moving.reduce(labels, [1], keep=True) == labels
    assert moving.reduce(labels, [1], keep=False) == (None, labels[2])
    with pytest.raises(NotFollowed, match="one number"):
        moving.reduce(labels, [-1], keep=False)
