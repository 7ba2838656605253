"""Brings a computation to TFF's native form, which `planner` reads.

It does what TFF's own compiler does, on one tree of building blocks: TFF's turns the tree into a
protocol buffer and back between its passes, which takes longer than the passes.
"""

import contextlib
import functools
from collections.abc import Iterator

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow.core.protobuf import device_properties_pb2
from tensorflow.python.grappler import cluster, tf_optimizer
from tensorflow_federated.proto.v0 import computation_pb2
from tensorflow_federated.python.core.backends.test import compiler as stand_ins
from tensorflow_federated.python.core.environments.tensorflow_backend import (
    compiled_computation_transformations as graphs,
)
from tensorflow_federated.python.core.impl.compiler import building_blocks, transformation_utils
from tensorflow_federated.python.core.impl.types import type_serialization
from typing_extensions import TypeAlias

from tff_partial.core.types import Computation, TffType

Block: TypeAlias = building_blocks.ComputationBuildingBlock


def compile_to_native(comp: Computation) -> Block:
    """Return the native form, with TFF's test stand-ins for secure aggregation."""
    with _types_remembered(), _one_device():
        block = comp.to_building_block()
        block, _ = stand_ins._replace_secure_intrinsics_with_insecure_bodies(block)
        block, _ = tff.tensorflow.replace_intrinsics_with_bodies(block)
        block = tff.framework.to_call_dominant(block)
        block, _ = transformation_utils.transform_postorder(block, _inlined)
    return block


def _inlined(block: Block) -> tuple[Block, bool]:
    """Inline the functions of a graph that has some."""
    if not isinstance(block, building_blocks.CompiledComputation):
        return block, False
    graph_def = tf.compat.v1.GraphDef()
    if not block.proto.tensorflow.graph_def.Unpack(graph_def) or not graph_def.library.function:
        return block, False
    return graphs.optimize_tensorflow_comp(block, _inlining()), True


def _inlining() -> tf.compat.v1.ConfigProto:
    """Return what Grappler does to a graph: it inlines functions, no more.

    `graphs` looks for what a graph does to variables, which may happen in functions. TensorFlow
    lets Grappler do the rest when it runs the graph.
    """
    config = tf.compat.v1.ConfigProto()
    options = config.graph_options.rewrite_options
    for field in options.DESCRIPTOR.fields:
        if field.enum_type is not None and field.enum_type.name == "Toggle":
            setattr(options, field.name, options.OFF)
    options.memory_optimization = options.NO_MEM_OPT
    options.meta_optimizer_iterations = options.ONE
    options.function_optimization = options.AGGRESSIVE
    return config


@contextlib.contextmanager
def _one_device() -> Iterator[None]:
    """Let Grappler think of one CPU; it starts a session, and logs that, to find out what is there.

    Functions are inlined whatever the devices are.
    """
    original = tf_optimizer.OptimizeGraph
    properties = device_properties_pb2.DeviceProperties(type="CPU")
    device = device_properties_pb2.NamedDevice(name="/device:CPU:0", properties=properties)
    tf_optimizer.OptimizeGraph = functools.partial(
        original, cluster=cluster.Cluster(devices=[device])
    )
    try:
        yield
    finally:
        tf_optimizer.OptimizeGraph = original


@contextlib.contextmanager
def _types_remembered() -> Iterator[None]:
    """Let TFF read the same type only once: a tree has the type of the weights many times."""
    original, known = type_serialization.deserialize_type, dict[bytes, TffType]()

    @functools.wraps(original)
    def remembering(proto: computation_pb2.Type) -> TffType:
        key = proto.SerializeToString(deterministic=True)
        if key not in known:
            known[key] = original(proto)
        return known[key]

    type_serialization.deserialize_type = remembering
    try:
        yield
    finally:
        type_serialization.deserialize_type = original
