"""Works around Keras 2: its behaviour in the graphs that TFF traces, its seeds, its signatures."""

from __future__ import annotations

import contextlib
import functools
import inspect
import random
from collections.abc import Iterator, Sequence
from typing import Callable

from tff_partial.core.lazy import tf
from tff_partial.core.types import KerasModel, Layer, Structure, Tensor, Variable


@contextlib.contextmanager
def tf2_behavior() -> Iterator[None]:
    """Make Keras behave as in TF 2 while TFF traces.

    In the plain graphs that TFF traces, Keras takes itself to be in TF 1: it swaps the base
    classes of all layers, so that models made before or outside stop working, rules out cuDNN
    LSTMs, and builds twice as many operations. What it asks is this one function.

    Recurrent layers then cache their variables, which TF 2 does in graphs only: they would never
    see what is assigned to them. Their loops have 32 steps in flight: gradients of kernels, a
    megabyte each in an LSTM of 256 units, pile up before they are added. And every call of one is
    traced for cuDNN as well, for which there is no use without a GPU.
    """
    from keras.src import backend
    from keras.src.layers.rnn import gru, lstm, rnn_utils

    compat = backend.tf.compat.v1
    while_loop = compat.while_loop
    with contextlib.ExitStack() as stack:
        replace = functools.partial(_replaced, stack)
        replace(compat, "executing_eagerly_outside_functions", lambda: True)
        replace(rnn_utils, "caching_device", lambda cell: None)
        one_by_one = {"parallel_iterations": 1}
        replace(compat, "while_loop", lambda **given: while_loop(**{**given, **one_by_one}))
        if not tf.config.list_physical_devices("GPU"):
            replace(lstm, "lstm_with_backend_selection", lstm.standard_lstm)
            replace(gru, "gru_with_backend_selection", gru.standard_gru)
        yield


def _replaced(stack: contextlib.ExitStack, module: object, name: str, value: Callable) -> None:
    """Replace an attribute until the stack is closed."""
    stack.callback(setattr, module, name, getattr(module, name))
    setattr(module, name, value)


class _Seeds(random.Random):
    """Accepts the float 1e9 as a limit, as Keras gives it; Python has deprecated that."""

    def randint(self, a: float, b: float) -> int:
        return super().randint(int(a), int(b))


@contextlib.contextmanager
def computing_in(precision: str) -> Iterator[None]:
    """Make layers that compute in this type and keep their variables in float32."""
    from keras.src.mixed_precision import policy

    if precision == "float32":
        yield
        return
    with policy.policy_scope(f"mixed_{precision}"):
        yield


def keep_input_types(layers: Sequence[Layer]) -> None:
    """Make models among the layers take inputs in the short type that these have.

    Else each casts its input to float32, and its first layer casts it back.
    """
    from keras.src.engine import functional

    def conform(model: KerasModel, tensor: Tensor, ref_input: Tensor) -> Tensor:
        if tensor.dtype.is_floating and ref_input.dtype.is_floating:
            ref_input = tf.TensorSpec(ref_input.shape, tensor.dtype)
        return type(model)._conform_to_reference_input(model, tensor, ref_input)

    for model in layers:
        if isinstance(model, functional.Functional):
            model._conform_to_reference_input = functools.partial(conform, model)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Make Keras's initialisers draw from `seed`, leaving the caller's randomness alone."""
    from keras.src import backend

    generator = getattr(backend._SEED_GENERATOR, "generator", None)
    backend._SEED_GENERATOR.generator = _Seeds(seed)
    try:
        yield
    finally:
        backend._SEED_GENERATOR.generator = generator


def use_stateless_randomness(blocks: Sequence[Layer], seed: Variable) -> bool:
    """Make random layers (dropout, noise) draw as a function of the variable `seed`.

    Keras draws from kernels that keep a state, so a result would depend on which clients ran
    before on the same instance of the graph, and a resumed run could not repeat it.

    Returns:
      Whether there are random layers.
    """
    from keras.src import backend

    class StatelessGenerator(backend.RandomGenerator):
        def __init__(self, salt: int) -> None:
            super().__init__(seed=salt, rng_type="stateless")

        def make_seed_for_stateless_op(self) -> Tensor:
            return tf.random.experimental.stateless_fold_in(seed.read_value(), self._seed)

    layers = (module for block in blocks for module in block.submodules)
    random_layers = [x for x in [*blocks, *layers] if hasattr(x, "_random_generator")]
    for salt, layer in enumerate(random_layers):
        layer._random_generator = StatelessGenerator(salt)
    return bool(random_layers)


def added_losses(layers: Sequence[Layer]) -> list[Tensor]:
    """Return what regularisers and `add_loss` add to a loss, float32 scalars.

    To be called where the layers have just been: what depends on their inputs is of the last call.
    """
    inner = [x for layer in layers for x in layer._flatten_layers()]
    # Not `losses`, which also has what was added in other graphs, when the layers were built.
    of_inputs = [loss for layer in inner for loss in layer._eager_losses]
    of_weights = [loss() for layer in inner for loss in layer._callable_losses]
    return [tf.cast(loss, tf.float32) for loss in (*of_inputs, *of_weights) if loss is not None]


def call(layer: Layer, x: Tensor, training: bool) -> Tensor:
    """Call a layer, with `training` if it takes that.

    AutoGraph converts the Python of a layer that is not Keras's own, and nothing else of a graph.
    """
    from tensorflow.python.autograph.core import ag_ctx

    takes_training = "training" in inspect.signature(layer.call).parameters
    with ag_ctx.ControlStatusCtx(ag_ctx.Status.ENABLED):
        return layer(x, training=training) if takes_training else layer(x)


@contextlib.contextmanager
def replaced_calls(layers: Sequence[Layer], create: Callable[[Layer], Callable]) -> Iterator[None]:
    """Replace the `call` of each layer by what `create(layer)` returns."""
    # Layers that Keras makes of operations have one of their own.
    own = [vars(layer).get("call") for layer in layers]
    for layer in layers:
        layer.call = create(layer)
    try:
        yield
    finally:
        for layer, call in zip(layers, own):
            if call is None:
                del layer.call
            else:
                layer.call = call


def call_in_training(layer: Layer, x: Tensor, *unused: Structure, **ignored: Structure) -> Tensor:
    """Run the `call` of a layer's class in training mode, whatever the mode of the pass."""
    return type(layer).call(layer, x, training=True)
