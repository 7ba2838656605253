"""Neurons that are joined, and groups of channels."""

import numpy as np
import pytest

from tff_partial.submodels.neurons import ALWAYS, CLASSES, Grouping, Neurons


@pytest.mark.parametrize("seed", range(5))
def test_roots_are_the_smallest_of_what_is_joined(seed):
    rng, neurons = np.random.default_rng(seed), Neurons()
    everything = neurons.new(30)
    sets = [{number} for number in range(31)]
    for _ in range(4):
        first, second = rng.choice(everything, 4), rng.choice(everything, 4)
        neurons.join(first, second)
        for pair in zip(first, second):
            joined = set().union(*(sets[number] for number in pair))
            for number in joined:
                sets[number] = joined
    roots, whole = neurons.roots()
    assert roots.tolist() == [min(joined) for joined in sets]
    assert whole.tolist() == [0]


def test_what_meets_no_neuron_is_always_kept_and_classes_come_first():
    neurons = Neurons()
    hidden, logits = neurons.new(3), neurons.new(2)
    neurons.join(hidden, np.array([0, 4, 0]))
    neurons.keep(logits)
    assert neurons.without_kept((hidden[[0, 2]], hidden, None))[0] is None
    grouping = Grouping(neurons, [hidden, logits], logits)
    axis = grouping.axis(hidden)
    assert axis.group.tolist() == [ALWAYS, CLASSES, ALWAYS]
    assert grouping.members == []
    assert grouping.axis(hidden[[0, 2]]) is None


def test_channels_form_a_group_if_they_stand_along_the_same_axes_equally_often():
    neurons = Neurons()
    a, b = neurons.new(4), neurons.new(2)
    axes = [np.concatenate([a, b, a]), a[:2], b]
    grouping = Grouping(neurons, axes, None)
    assert [len(members) for members in grouping.members] == [2, 2, 2]
    whole = grouping.axis(axes[0])
    assert whole.repeats == {0: 2, 1: 2, 2: 1}
    assert whole.kept([1, 2, 1]) == 2 * 1 + 2 * 2 + 1
    assert grouping.axis(axes[0]) is whole
    assert grouping.groups_of(a) == [0, 1]
