"""A Keras model as an ordered list of blocks, and what else training needs to know about it.

A model is a `tf.keras.Sequential` of named blocks, or a functional model, which is cut into blocks
(layer_graph.py); a block is any Keras layer or model with one input and one output tensor.
Splitting a model at block k is `blocks[:k]` and `blocks[k:]`.

Layers with `trainable = False` are frozen: their variables are neither trained nor sent, and start
in every graph with the values that they have where the spec is made (starting_values.py).
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Callable, Optional

import numpy as np

from tff_partial.core import (
    keras_compat,
    keras_shapes,
    layer_graph,
    model_checks,
    normalization,
    objectives,
    starting_values,
)
from tff_partial.core.lazy import tf, tff
from tff_partial.core.precision import LossScale
from tff_partial.core.types import KerasModel, Layer, Structure, Tensor, TffType, Variable, Weights

# (Name, dtype, shape) of each variable.
Description = list[tuple[str, "tf.DType", "tf.TensorShape"]]


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
    """What a process needs to know about a model and its data.

    Labels are int32 [n].

    Attributes:
      create_keras: Returns a new `tf.keras.Sequential` of blocks, or a functional model, that
        yields logits.
      input_shape: Shape of one example.
      input_dtype: Type of an example's elements as clients hold them.
      preprocess: What is done to a batch of examples before the first block.
      augment: (batch, seed [2]) -> batch, applied before `preprocess` in training only.
      seed: Determines the initial weights.
      loss: A name of `objectives.LOSSES`, or a function of labels and logits that returns the loss
        of each example; None: `binary` for a single logit, else `categorical`.
      metrics: Names of `objectives.METRICS`, or such functions, that an evaluation reports;
        `accuracy` among them.
      cuts: What the tiers `moderate` and `weak` leave out; those that are not given follow from
        the model's costs (`costs.cut_of`).
      capacity_batch: Batch size at which capacities are computed; None: that of the training.
      checked: Whether the model is made of the layers of one that has been checked.
      has_frozen: Whether it has frozen layers.

    Raises:
      ValueError: If the model would be trained otherwise than it is written (model_checks.py): its
        blocks in a row compute something else, or it ends in a softmax; or if nothing is trained.
    """

    create_keras: Callable[[], KerasModel]
    input_shape: tuple[int, ...]
    input_dtype: str = "float32"
    preprocess: Optional[Callable[[Tensor], Tensor]] = None
    augment: Optional[Callable[[Tensor, Tensor], Tensor]] = None
    seed: int = 0
    loss: Optional[objectives.Objective] = None
    metrics: tuple[objectives.Objective, ...] = ("accuracy",)
    cuts: Mapping[str, Cut] = dataclasses.field(default_factory=dict)
    capacity_batch: Optional[int] = None
    checked: bool = dataclasses.field(default=False, repr=False, compare=False)
    has_frozen: bool = dataclasses.field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        objectives.check(self.loss, self.metrics)
        if not self.checked:
            self._check()

    def _check(self) -> None:
        """Raise a ValueError if the blocks are not the model; see `model_checks`."""
        create = functools.partial(Model, self)
        graph = tf.Graph()
        with graph.as_default(), keras_compat.tf2_behavior(), keras_compat.seeded(self.seed):
            keras_model = self.create_keras()
            are_given = starting_values.are_given(graph)
            is_chain = model_checks.is_chain(keras_model)
            model_checks.check_listed_once(keras_model)
            model_checks.check_logits(keras_model, self.loss)
            if is_chain:
                model = create(keras_model)
                vars(self)["_variables"] = _described(model)
            else:
                x = model_checks.random_batch(self.input_shape, self.input_dtype)
                x = self.preprocess(x) if self.preprocess else x
                model = model_checks.check_chain(keras_model, x, create)
            model_checks.check_shared(model.blocks)
            model_checks.check_trainable(keras_model, model)
        if are_given or model.frozen:
            vars(self)["_values"] = starting_values.of(self, are_given)
            vars(self)["has_frozen"] = bool(model.frozen)

    def instantiate(self, precision: str = "float32", initial: bool = True) -> Model:
        """Build the model with variables of its own.

        Args:
          precision: What its layers compute in; variables and logits are float32 whatever it is.
          initial: Whether the variables start as `seed` determines, or `create_keras` has set them.
            If not, they start somehow, the same for all seeds: a client sets them before it uses
            them. Those of frozen layers always start with their values.
        """
        policy, seed = keras_compat.computing_in(precision), self.seed if initial else 0
        with keras_compat.tf2_behavior(), keras_compat.seeded(seed), policy:
            with keras_shapes.computed(), starting_values.left_out():
                keras_model = self.create_keras()
            model = Model(self, keras_model, precision)
            starting_values.apply(vars(self).get("_values", {}), model, initial)
        vars(self).setdefault("_variables", _described(model))
        return model

    @functools.cached_property
    def weights_type(self) -> TffType:
        """TFF type of the model's `tff.learning.models.ModelWeights`."""
        types = [[(dtype, shape) for _, dtype, shape in described] for described in self._variables]
        return tff.types.tensorflow_to_type(tff.learning.models.ModelWeights(*types))

    @functools.cached_property
    def variable_names(self) -> list[str]:
        """Names of the trainable, then the non-trainable variables, `block/layer/kernel`."""
        return [name for described in self._variables for name, _, _ in described]

    @functools.cached_property
    def _variables(self) -> tuple[Description, Description]:
        """The trainable and the non-trainable variables."""
        with tf.Graph().as_default():
            return _described(self.instantiate())

    @functools.cached_property
    def data_type(self) -> TffType:
        """TFF type of what a process receives for a client: a sequence of exactly one record."""
        record = collections.OrderedDict(
            x=tff.TensorType(np.dtype(self.input_dtype).type, [None, *self.input_shape]),
            y=tff.TensorType(np.int32, [None]),
            client_id=tff.TensorType(np.int64),
            tier=tff.TensorType(np.int32),
            seed=tff.TensorType(np.int32, [2]),
        )
        return tff.SequenceType(tff.to_type(record))

    def to_tff_model(self) -> tff.learning.models.VariableModel:
        """Return the model for TFF's own evaluation (`evaluation.to_tff_model`)."""
        from tff_partial.core import evaluation

        return evaluation.to_tff_model(self)


class Model:
    """A model with variables, in the graph or eager context it was built in.

    Attributes:
      blocks: The blocks.
      trainable: What is trained.
      statistics: What training moves otherwise, such as the statistics of batch normalisation.
      frozen: The variables of layers with `trainable = False`: no part of weights and updates.
      is_random: Whether training draws random numbers, from the seed of the step.
    """

    def __init__(
        self, spec: ModelSpec, keras_model: KerasModel, precision: str = "float32"
    ) -> None:
        self.spec, self.precision = spec, precision
        self.loss_scale = LossScale() if precision == "float16" else None
        self.blocks = _blocks(keras_model)
        if precision != "float32":
            keras_compat.keep_input_types([x for b in self.blocks for x in (b, *b.submodules)])
        if not all(block.built for block in self.blocks):
            # Called rather than `build`-ed: a Sequential in a Sequential has no variables else.
            example = tf.zeros([1, *spec.input_shape], spec.input_dtype)
            self.forward(self.preprocess(example), training=False)
        self.trainable = [v for b in self.blocks for v in b.trainable_variables]
        others = [v for b in self.blocks for v in b.non_trainable_variables]
        frozen = starting_values.frozen_of(self.blocks)
        self.statistics = [v for v in others if id(v) not in frozen]
        self.frozen = [v for v in others if id(v) in frozen]
        self._step_seed = tf.Variable([0, 0], trainable=False, dtype=tf.int32)
        has_random_layers = keras_compat.use_stateless_randomness(self.blocks, self._step_seed)
        self.is_random = has_random_layers or spec.augment is not None
        self._buffers: dict[tuple[int, str], Variable] = {}

    def buffer(self, variable: Variable, purpose: str = "momentum") -> Variable:
        """Return a variable of the same shape, for an optimiser; parts of the model share it."""
        key = id(variable), purpose
        if key not in self._buffers:
            zeros = tf.zeros(variable.shape, variable.dtype)
            self._buffers[key] = tf.Variable(zeros, trainable=False)
        return self._buffers[key]

    @property
    def variables(self) -> list[Variable]:
        """What is sent and averaged: the trainable variables, then the statistics."""
        return [*self.trainable, *self.statistics]

    @property
    def everything(self) -> list[Variable]:
        """All variables: what is sent, then the frozen ones."""
        return [*self.variables, *self.frozen]

    @property
    def weights(self) -> Weights:
        return tff.learning.models.ModelWeights(self.trainable, self.statistics)

    def preprocess(self, x: Tensor) -> Tensor:
        """Turn examples as clients hold them into what the first block takes."""
        return self.spec.preprocess(x) if self.spec.preprocess else x

    def augment(self, x: Tensor) -> Tensor:
        """Change a batch of examples as clients hold them at random, if the spec says so."""
        return self.spec.augment(x, self.step_seed()) if self.spec.augment else x

    def forward(self, x: Tensor, training: bool, blocks: Optional[list[Layer]] = None) -> Tensor:
        """Run `blocks` (all by default) one after the other; logits are float32."""
        blocks = self.blocks if blocks is None else blocks
        with keras_compat.tf2_behavior():
            for block in blocks:
                x = keras_compat.call(block, x, training)
        return tf.cast(x, tf.float32) if blocks[-1:] == self.blocks[-1:] else x

    def forward_first_half(self, block: Layer, x: Tensor) -> Structure:
        """Run the first half of the words through a block; return what the second half needs."""
        with keras_compat.tf2_behavior():
            return block.record_first_half(x)

    def forward_second_half(self, block: Layer, recorded: Structure) -> Tensor:
        """Run the second half of the words, in training mode, on what the first half returned."""
        with keras_compat.tf2_behavior():
            return block.call_second_half(recorded, training=True)

    def layers_of(self, kind: type) -> list[Layer]:
        """Return all layers of a class, however deep in the blocks."""
        return [x for b in self.blocks for x in (b, *b.submodules) if isinstance(x, kind)]

    @contextlib.contextmanager
    def batch_statistics(self, static_only: bool = False) -> Iterator[None]:
        """Make batch norm use the statistics of its batch, whatever the mode of a forward pass.

        Static batch norm has no other statistics while training.
        """
        layers = self.layers_of(tf.keras.layers.BatchNormalization)
        if static_only:
            layers = [layer for layer in layers if normalization.is_static(layer)]
        in_training = functools.partial(functools.partial, keras_compat.call_in_training)
        with keras_compat.replaced_calls(layers, in_training):
            yield

    def assign(self, weights: Weights) -> None:
        """Set all variables that are not frozen from a `ModelWeights` of tensors."""
        values = [*weights.trainable, *weights.non_trainable]
        for variable, value in zip(self.variables, values):
            variable.assign(value, read_value=False)

    def set_seed(self, seed: Tensor) -> None:
        """Determine what random layers and the augmentation draw until the next call."""
        self._step_seed.assign(seed, read_value=False)

    def step_seed(self) -> Tensor:
        """Return what `set_seed` set, int32 [2]; it is called for every step if `is_random`."""
        return self._step_seed.read_value()

    def losses(self, y: Tensor, logits: Tensor) -> Tensor:
        """Return the loss of each example: labels int32 [n], logits -> float32 [n]."""
        return objectives.losses(self.spec.loss, y, logits)

    def metrics(self, y: Tensor, logits: Tensor) -> list[Tensor]:
        """Return the spec's metrics of each example, float32 [n] each."""
        return [objectives.metric(metric, y, logits) for metric in self.spec.metrics]


def _blocks(keras_model: KerasModel) -> list[Layer]:
    if not layer_graph.is_functional(keras_model):
        return list(keras_model.layers)
    with keras_shapes.computed():
        return layer_graph.blocks(keras_model)


def _described(model: Model) -> tuple[Description, Description]:
    taken = collections.Counter[str]()

    def name(variable: Variable) -> str:
        written = variable.name.split(":")[0]
        taken[written] += 1
        return f"{written}_{taken[written] - 1}" if taken[written] > 1 else written

    trainable, statistics = (
        [(name(v), v.dtype, v.shape) for v in variables]
        for variables in (model.trainable, model.statistics)
    )
    return trainable, statistics
