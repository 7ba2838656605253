"""Steps on leaves: their order, their levels, and functions of them."""

import collections

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.runtime.in_process.computations import SEQUENCE, at_clients, at_server
from tff_partial.runtime.in_process import steps
from tff_partial.runtime.in_process.steps import CLIENTS, SERVER, Fold, Step

INT = tff.TensorType(np.int32)


def add(inputs, region=SERVER):
    """A step that adds numbers; `emit` works on plain Python numbers as well."""
    return Step(lambda values: [sum(values)], inputs, INT, region)


def create_fold(values):
    zero, one, other = (steps.Leaf(INT, SERVER) for _ in range(3))
    total = add([one, other])
    accumulate = steps.local_function([one, other], [total], total.outputs)
    return Fold(values, [zero], accumulate, INT)


def test_leaves_are_in_the_order_of_the_type():
    names = collections.OrderedDict(z=np.int32, a=SEQUENCE)
    types = steps.leaf_types(tff.to_type([at_server(names), at_clients(np.float32)]))
    assert types == [INT, SEQUENCE, tff.TensorType(np.float32)]
    (z, a), b = steps.create_parameter(tff.to_type([names, np.float32]), SERVER)
    assert steps.flatten(((z, a), b)) == [z, a, b]
    assert steps.flatten(None) == []


def test_what_all_clients_share_is_the_servers():
    kinds = [at_clients(np.int32), at_clients(np.int32, all_equal=True), at_server(np.int32)]
    parameters = steps.create_parameter(tff.to_type(kinds), SERVER)
    assert [leaf.region for leaf in parameters] == [CLIENTS, SERVER, SERVER]


def test_a_fold_is_a_level_above_what_it_folds():
    of_client = steps.Leaf(INT, CLIENTS)
    first = create_fold([of_client])
    second = create_fold(add([of_client, *first.outputs], CLIENTS).outputs)
    assert [leaf.level for fold in (first, second) for leaf in fold.outputs] == [1, 2]
    assert second.inputs[0].level == 1


def test_needed_steps_come_after_those_that_they_depend_on():
    x = steps.Leaf(INT, SERVER)
    first = add([x])
    unused = add([x])
    second = add([*first.outputs, x])
    third = add([*second.outputs, *first.outputs])
    assert steps.needed_steps(third.outputs) == [first, second, third]
    assert unused not in steps.needed_steps(third.outputs)


def test_a_function_captures_what_it_uses_and_does_not_compute():
    x, y = steps.Leaf(INT, SERVER), steps.Leaf(INT, SERVER)
    first = add([x, y])
    second = add([*first.outputs, y, y])
    function = steps.local_function([x], [first, second], [*second.outputs, y])
    assert function.captures == [y]
    assert function.emit([1], [10]) == [31, 10]
    assert not function.exclusive


def test_a_planned_function_has_only_its_own_steps():
    outside = add([steps.Leaf(INT, SERVER)])
    planned = steps.plan_function(
        lambda argument, region: add([argument, *outside.outputs], region).result, INT
    )
    assert planned.captures == outside.outputs
    assert outside not in planned.steps
    assert planned.emit([1], [10]) == [11]


def test_what_has_no_value_is_refused():
    function = tff.FunctionType(np.int32, np.int32)
    with pytest.raises(NotImplementedError, match="takes no function as argument"):
        steps.create_parameter(function, SERVER)
    with pytest.raises(NotImplementedError, match="has no values of type"):
        steps.leaf_types(function)
    with pytest.raises(NotImplementedError, match="cannot pass a function"):
        steps.flatten((lambda argument, region: argument,))
    fold = create_fold([steps.Leaf(INT, CLIENTS)])
    with pytest.raises(NotImplementedError, match="cannot aggregate inside"):
        steps.local_function([], [fold], fold.outputs).emit([], [1, 2])
