"""Functions that threads share."""

import gc
import threading

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow.python.eager import context

from tests.runtime.in_process.computations import local
from tff_partial.runtime.in_process import graphs, steps
from tff_partial.runtime.in_process.functions import TracedFunction
from tff_partial.runtime.in_process.steps import SERVER, Step

FLOAT = tff.TensorType(np.float32)


def create(emit, inputs=2, exclusive=False, graph=None):
    """A function of the first input as a parameter and the others as captures."""
    leaves = [steps.Leaf(FLOAT, SERVER) for _ in range(inputs)]
    step = Step(emit, leaves, FLOAT, SERVER, exclusive, graph)
    function = steps.local_function(leaves[:1], [step], step.outputs)
    return TracedFunction(function)


def test_captures_come_first():
    assert create(lambda values: [values[0] - values[1]])([np.float32(3), np.float32(10)]) == [7.0]


def test_a_parameter_can_be_returned():
    parameter = steps.Leaf(FLOAT, SERVER)
    function = TracedFunction(steps.local_function([parameter], [], [parameter]))
    assert function([np.float32(5)]) == [5.0]


def test_calls_take_turns_where_a_resource_keeps_its_name():
    running, most, lock = [0], [], threading.Lock()

    def watch(x):
        with lock:
            running[0] += 1
            most.append(running[0])
        threading.Event().wait(0.005)
        with lock:
            running[0] -= 1
        return x

    function = create(
        lambda values: [tf.numpy_function(watch, values, tf.float32)], 1, exclusive=True
    )
    threads = [threading.Thread(target=function, args=([np.float32(i)],)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 6


def test_imported_functions_are_forgotten():
    def loop(x):
        return tf.while_loop(lambda y: y < 10.0, lambda y: y + 3.0, [x])[0]

    graph = graphs.prepare(tff.framework.serialize_computation(local(loop, np.float32)).tensorflow)
    names = [f.signature.name for f in graph.graph_def.library.function]
    function = create(graph.emit, 1, graph=graph)
    assert function([np.float32(2)]) == [11.0]
    assert names
    assert all(context.context().has_function(name) for name in names)
    del function
    gc.collect()
    assert not any(context.context().has_function(name) for name in names)
