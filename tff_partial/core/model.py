"""A Keras model as an ordered list of blocks, and what else training needs to know of it.

A model is a `tf.keras.Sequential` of named blocks; a block is any Keras layer or model with one
input and one output tensor. Splitting a model at block k is `blocks[:k]` and `blocks[k:]`.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import inspect
import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, Optional

import numpy as np

from tff_partial.core import model_checks, normalization, objectives
from tff_partial.core.lazy import tf, tff


@dataclasses.dataclass(frozen=True)
class Cut:
    """What a client does not train.

    Attributes:
      blocks: Number of removed blocks.
      half: Whether the first half of the words is removed as well, from the block that follows.
    """

    blocks: int = 0
    half: bool = False


@dataclasses.dataclass(frozen=True)
class ModelSpec:
    """What a process needs to know of a model and its data.

    Labels are int32 [n].

    Attributes:
      create_keras: Returns a new `tf.keras.Sequential` of blocks that yields logits.
      input_shape: Shape of one example.
      input_dtype: Type of an example's elements as clients hold them.
      preprocess: What is done to a batch of examples before the first block.
      augment: (batch, seed [2]) -> batch, applied before `preprocess` in training only.
      seed: Determines the initial weights.
      loss: A name of `objectives.LOSSES`; None: `binary` for a single logit, else `categorical`.
      metrics: Names of `objectives.METRICS` that an evaluation reports, `accuracy` among them.
      cuts: What the tiers `moderate` and `weak` leave out; those that are not given follow from
        the model's costs (`costs.cut_of`).
      capacity_batch: Batch size at which capacities are computed; None: that of the training.
      checked: Whether the model is made of the layers of one that has been checked.

    Raises:
      ValueError: If the model would be trained otherwise than it is written: its layers in a row
        compute something else, or have regularisers or constraints (model_checks.py).
    """

    create_keras: Callable[[], Any]
    input_shape: tuple[int, ...]
    input_dtype: str = "float32"
    preprocess: Optional[Callable[[Any], Any]] = None
    augment: Optional[Callable[[Any, Any], Any]] = None
    seed: int = 0
    loss: Optional[str] = None
    metrics: tuple[str, ...] = ("accuracy",)
    cuts: Mapping[str, Cut] = dataclasses.field(default_factory=dict)
    capacity_batch: Optional[int] = None
    checked: bool = dataclasses.field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        objectives.check(self.loss, self.metrics)
        if not self.checked:
            self._check()

    def _check(self) -> None:
        """Raises a ValueError if the blocks are not the model; see `model_checks`."""
        with tf.Graph().as_default(), _keras_of_tf2(), _seeded(self.seed):
            keras_model = self.create_keras()
            is_chain = model_checks.is_chain(keras_model)
            model_checks.check_listed_once(keras_model)
            if is_chain:
                model = Model(self, keras_model)
                vars(self)["_variables"] = _described(model)
            else:
                model = self._check_chain(keras_model)
            model_checks.check_layers(keras_model)
            model_checks.check_shared(model.blocks)

    def _check_chain(self, keras_model: Any) -> Model:
        examples = model_checks.random_batch(self.input_shape, self.input_dtype)
        x = self.preprocess(examples) if self.preprocess else examples
        # Called first: its layers have the shapes then that it means them to have.
        _call(keras_model, x, training=False)
        try:
            model = Model(self, keras_model)
        except (ValueError, TypeError) as error:
            raise model_checks.refused(keras_model, "its layers cannot be called so") from error
        model_checks.check_chain(
            keras_model,
            [*model.trainable, *model.statistics],
            x,
            functools.partial(_call, keras_model),
            model.forward,
        )
        return model

    def instantiate(self) -> Model:
        """Builds the model with variables of its own, initial values determined by `seed`."""
        with _keras_of_tf2(), _seeded(self.seed):
            return Model(self, self.create_keras())

    @functools.cached_property
    def weights_type(self) -> Any:
        """TFF type of the model's `tff.learning.models.ModelWeights`."""
        types = [[(dtype, shape) for _, dtype, shape in described] for described in self._variables]
        return tff.types.tensorflow_to_type(tff.learning.models.ModelWeights(*types))

    @functools.cached_property
    def variable_names(self) -> list[str]:
        """Names of the trainable, then the non-trainable variables, `block/layer/kernel`."""
        return [name for described in self._variables for name, _, _ in described]

    @functools.cached_property
    def _variables(self) -> tuple[list[Any], list[Any]]:
        """(Name, dtype, shape) of each trainable and of each non-trainable variable."""
        with tf.Graph().as_default():
            return _described(self.instantiate())

    @functools.cached_property
    def record_type(self) -> Any:
        """TFF type of a client's record; what a client holds is a sequence of exactly one."""
        fields = collections.OrderedDict(
            x=tff.TensorType(np.dtype(self.input_dtype).type, [None, *self.input_shape]),
            y=tff.TensorType(np.int32, [None]),
            client_id=tff.TensorType(np.int64),
            tier=tff.TensorType(np.int32),
            seed=tff.TensorType(np.int32, [2]),
        )
        return tff.StructWithPythonType(list(fields.items()), collections.OrderedDict)

    def to_tff_model(self) -> Any:
        """A `tff.learning.models.VariableModel`, for TFF's own evaluation.

        Its weights are those of this project's processes, for static batch normalisation after
        `evaluation.calibrated`; it takes batches (x, y) of examples as clients hold them,
        `preprocess` included.
        """
        model = self.instantiate()
        with _keras_of_tf2():
            layers = [tf.keras.layers.Lambda(model.preprocess), *model.blocks]
            keras_model = tf.keras.Sequential(layers)
            keras_model.build([None, *self.input_shape])
        one_logit = keras_model.compute_output_shape([None, *self.input_shape])[-1] == 1
        binary = (self.loss or ("binary" if one_logit else "categorical")) == "binary"
        kind = tf.keras.losses
        loss = kind.BinaryCrossentropy if binary else kind.SparseCategoricalCrossentropy
        metrics = [tf.keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)]
        if not binary:
            metrics = [tf.keras.metrics.SparseCategoricalAccuracy("accuracy")]
        if "top5_accuracy" in self.metrics:
            metrics.append(tf.keras.metrics.SparseTopKCategoricalAccuracy(5, "top5_accuracy"))
        x = tf.TensorSpec([None, *self.input_shape], self.input_dtype)
        with warnings.catch_warnings():
            # That TFF does not train batch-norm statistics is no concern of an evaluation.
            warnings.filterwarnings("ignore", "Batch Normalization contains")
            return tff.learning.models.from_keras_model(
                keras_model,
                loss=loss(from_logits=True),
                input_spec=(x, tf.TensorSpec([None, 1] if binary else [None], tf.int32)),
                metrics=metrics,
            )


class Model:
    """A model with variables, in the graph or eager context it was built in."""

    def __init__(self, spec: ModelSpec, keras_model: Any) -> None:
        self.spec = spec
        self.blocks: list[Any] = list(keras_model.layers)
        if not all(block.built for block in self.blocks):
            # Called rather than `build`-ed: a Sequential in a Sequential has no variables else.
            example = tf.zeros([1, *spec.input_shape], spec.input_dtype)
            self.forward(self.preprocess(example), training=False)
        self.trainable: list[Any] = [v for b in self.blocks for v in b.trainable_variables]
        self.statistics: list[Any] = [v for b in self.blocks for v in b.non_trainable_variables]
        self._step_seed = tf.Variable([0, 0], trainable=False, dtype=tf.int32)
        has_random_layers = _use_stateless_randomness(self.blocks, self._step_seed)
        self.is_random = has_random_layers or spec.augment is not None

        self._buffers: dict[tuple[int, str], Any] = {}

    def buffer(self, variable: Any, purpose: str = "momentum") -> Any:
        """A variable of the same shape, for an optimiser; parts of the model share it."""
        key = id(variable), purpose
        if key not in self._buffers:
            zeros = tf.zeros(variable.shape, variable.dtype)
            self._buffers[key] = tf.Variable(zeros, trainable=False)
        return self._buffers[key]

    @property
    def weights(self) -> Any:
        return tff.learning.models.ModelWeights(self.trainable, self.statistics)

    def preprocess(self, x: Any) -> Any:
        """Examples as clients hold them -> what the first block takes."""
        return self.spec.preprocess(x) if self.spec.preprocess else x

    def forward(self, x: Any, training: bool, blocks: Optional[Sequence[Any]] = None) -> Any:
        """Runs `blocks` (all by default) one after the other."""
        with _keras_of_tf2():
            for block in self.blocks if blocks is None else blocks:
                x = _call(block, x, training)
        return x

    def record_half(self, block: Any, x: Any) -> Any:
        """Runs the first half of the words through a block; what it needs for the second."""
        with _keras_of_tf2():
            return block.record_first_half(x)

    def forward_half(self, block: Any, recorded: Any) -> Any:
        """The second half of the words, in training mode, from what `record_half` returned."""
        with _keras_of_tf2():
            return block.call_second_half(recorded, training=True)

    def layers_of(self, kind: Any) -> list[Any]:
        """All layers of a class, however deep in the blocks."""
        return [x for b in self.blocks for x in (b, *b.submodules) if isinstance(x, kind)]

    @contextlib.contextmanager
    def batch_statistics(self, static_only: bool = False) -> Iterator[None]:
        """Makes batch norm use the statistics of its batch, whatever the mode of a forward pass.

        Static batch norm has no other statistics while training.
        """
        layers = self.layers_of(tf.keras.layers.BatchNormalization)
        if static_only:
            layers = [layer for layer in layers if normalization.is_static(layer)]
        for layer in layers:
            layer.call = functools.partial(_call_in_training, layer)
        try:
            yield
        finally:
            for layer in layers:
                del layer.call

    def assign(self, weights: Any) -> None:
        """Sets all variables from a `ModelWeights` of tensors."""
        for variable, value in zip(self.trainable, weights.trainable):
            variable.assign(value, read_value=False)
        for variable, value in zip(self.statistics, weights.non_trainable):
            variable.assign(value, read_value=False)

    def set_seed(self, seed: Any) -> None:
        """Determines what random layers and the augmentation draw until the next call."""
        self._step_seed.assign(seed, read_value=False)

    def step_seed(self) -> Any:
        """What `set_seed` set, int32 [2]; it is called for every step if `is_random`."""
        return self._step_seed.read_value()

    def augment(self, x: Any) -> Any:
        """A batch of examples as clients hold them, changed at random if the spec says so."""
        return self.spec.augment(x, self.step_seed()) if self.spec.augment else x

    def losses(self, y: Any, logits: Any) -> Any:
        """Loss of each example: labels int32 [n], logits -> float32 [n]."""
        fitting = "binary" if logits.shape[-1] == 1 else "categorical"
        return objectives.LOSSES[self.spec.loss or fitting](y, logits)

    def metrics(self, y: Any, logits: Any) -> list[Any]:
        """The spec's metrics of each example, float32 [n] each."""
        return [objectives.METRICS[name](y, logits) for name in self.spec.metrics]


def _call_in_training(layer: Any, x: Any, *unused: Any, **ignored: Any) -> Any:
    return type(layer).call(layer, x, training=True)


def _call(layer: Any, x: Any, training: bool) -> Any:
    takes_training = "training" in inspect.signature(layer.call).parameters
    return layer(x, training=training) if takes_training else layer(x)


def _described(model: Model) -> tuple[list[Any], list[Any]]:
    """(Name, dtype, shape) of the model's trainable and of its non-trainable variables."""
    trainable, statistics = (
        [(v.name.split(":")[0], v.dtype, v.shape) for v in variables]
        for variables in (model.trainable, model.statistics)
    )
    return trainable, statistics


@contextlib.contextmanager
def _keras_of_tf2() -> Iterator[None]:
    """Makes Keras behave as in TF 2 while TFF traces.

    In the plain graphs that TFF traces, Keras takes itself to be in TF 1: it swaps the base
    classes of all layers, so that models made before or outside stop working, rules out cuDNN
    LSTMs, and builds twice as many operations. What it asks is this one function.

    Recurrent layers then cache their variables, which TF 2 does in graphs only: they would never
    see what is assigned to them. And their loops have 32 steps in flight: gradients of kernels, a
    megabyte each in an LSTM of 256 units, pile up before they are added.
    """
    from keras.src import backend
    from keras.src.layers.rnn import rnn_utils

    compat = backend.tf.compat.v1
    asked = compat.executing_eagerly_outside_functions, rnn_utils.caching_device
    while_loop = compat.while_loop
    compat.executing_eagerly_outside_functions = lambda: True
    rnn_utils.caching_device = lambda cell: None
    compat.while_loop = lambda **given: while_loop(**{**given, "parallel_iterations": 1})
    try:
        yield
    finally:
        compat.executing_eagerly_outside_functions, rnn_utils.caching_device = asked
        compat.while_loop = while_loop


class _Seeds(random.Random):
    """Keras asks for an integer up to the float 1e9, which Python has deprecated."""

    def randint(self, a: float, b: float) -> int:
        return super().randint(int(a), int(b))


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Makes Keras's initialisers draw from `seed`, leaving the caller's randomness alone."""
    from keras.src import backend

    generator = getattr(backend._SEED_GENERATOR, "generator", None)
    backend._SEED_GENERATOR.generator = _Seeds(seed)
    try:
        yield
    finally:
        backend._SEED_GENERATOR.generator = generator


def _use_stateless_randomness(blocks: Sequence[Any], seed: Any) -> bool:
    """Makes random layers (dropout, noise) draw as a function of the variable `seed`.

    Returns whether there are any.

    Keras draws from kernels that keep a state, so a result would depend on which clients ran
    before on the same instance of the graph, and a resumed run could not repeat it.
    """
    from keras.src import backend

    class StatelessGenerator(backend.RandomGenerator):
        def __init__(self, salt: int) -> None:
            super().__init__(seed=salt, rng_type="stateless")

        def make_seed_for_stateless_op(self) -> Any:
            return tf.random.experimental.stateless_fold_in(seed.read_value(), self._seed)

    layers = (module for block in blocks for module in block.submodules)
    random_layers = [x for x in [*blocks, *layers] if hasattr(x, "_random_generator")]
    for salt, layer in enumerate(random_layers):
        layer._random_generator = StatelessGenerator(salt)
    return bool(random_layers)
