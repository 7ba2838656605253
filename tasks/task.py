"""What a task is: data, model, loss, metrics and hyperparameters, frozen and checked when made."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Callable, NamedTuple, Optional, Protocol, Union

import numpy as np

from tff_partial import tiers
from tff_partial.core import aggregators, checks, objectives, own_code
from tff_partial.core.types import Tensor
from tff_partial.tiers import Tier

from . import partition as partition_lib

if TYPE_CHECKING:
    from .federated import FederatedData

# More than these is a mistake and fills the memory: clients of a population, examples that a client
# goes through in a round, and epochs in it.
MOST_CLIENTS, MOST_EXAMPLES, MOST_EPOCHS = 10**8, 10**8, 10**5
TESTED = ("server", "tiers", "clients")
SAMPLINGS = ("fixed", "poisson")
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_SCHEDULE = re.compile(rf"{_NUMBER}(?:\*{_NUMBER})?(?:~{_NUMBER})?(?:,{_NUMBER}:{_NUMBER})*")


class DataError(ValueError):
    """Real data that cannot be read or downloaded; the message is one line for the user."""


class Arrays(NamedTuple):
    """A data set in memory.

    Images are uint8 [n, height, width, channels], tokens int32 [n, length], labels int32 [n].
    `writers` is the natural client of each training example, where there is one. `description` is
    shown with every result.
    """

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    description: str
    real: bool
    writers: Optional[np.ndarray] = None


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a run. Those but `source` are flags, and these are their help texts.

    Attributes:
      model: Name of the model.
      partition: How examples go to clients, such as dirichlet:0.1 or classes:2; --list shows all.
      clients: Clients in the population.
      clients_per_round: Clients that train in a round.
      rounds: Number of rounds.
      batch_size: Examples in a local step.
      learning_rate: A number; 0.4,800:0.04 (0.04 from round 800 on); 0.1*0.998 (times 0.998 every
        round); 0.4~6 (rises over six rounds).
      local_optimizer: sgd, adam or adamw. Adam's learning rate is 0.001 and SGD's momentum 0 where
        none is given.
      momentum: Momentum of local SGD; reset every round, unless clients keep their models.
      local_beta_1: Adam: decay of the mean of gradients.
      local_beta_2: Adam: decay of the mean of their squares.
      local_epsilon: Adam: added to the root of the latter.
      weight_decay: Factor of the weights that is added to their gradient; adamw subtracts it, times
        the learning rate, instead.
      weight_decay_on: kernels (before clipping) or all parameters (after it, as in PyTorch).
      clip_norm: Scale gradients to at most this global norm.
      precision: Type that local training computes in: float32 (default), bfloat16 or float16;
        weights and evaluation stay float32.
      record_precision: Type that recorded activations and client states are kept in: float32
        (default) or bfloat16.
      server_optimizer: sgd (adds the mean update), fedavgm, fedadam or fedyogi.
      server_learning_rate: Of the server; 1 for sgd and fedavgm, 0.01 for the others by default.
      server_beta_1: Momentum of fedavgm, fedadam and fedyogi.
      server_beta_2: fedadam, fedyogi: decay of the mean of squares.
      server_tau: fedadam, fedyogi: added to its root; the smaller, the more adaptive.
      local_steps: Local steps in a round (or --local_epochs).
      local_epochs: Passes through the local data in a round (or --local_steps).
      width: Rate of the model's channels and units, in (0, 1].
      tiers: Clients of each tier, such as strong:16,moderate:16,weak:96 or strong:25%,weak:75%. A
        budget means the same for every algorithm: memory:0.25:96, compute:0.25:96, params:0.25:96,
        rate:0.25:96 (memory of a quarter of the channels) or blocks:3:96 (memory without three
        blocks). In short, 7:96 removes seven blocks, 0.3:96 as many as a capacity of 0.3 requires;
        with sub-models, 1/2:96 keeps half of the channels.
      only_tiers: Tiers whose clients take part, such as strong; all by default.
      capacities: Sub-models: rates of which each selected client draws one every round, such as
        1/4, 1/2:0.2,1/16:0.8 or feddse, in place of tiers.
      target_accuracy: Report the rounds to this test accuracy; 0: none.
      sampler: Who takes part in a round: my_module:fn, a function (client ids, how many, round,
        seed) -> ids; drawn at random by default.
      sampling: fixed (so many clients, without replacement) or poisson (each with the probability
        that gives so many on average), which aggregation dp has by default.
      aggregation: How the server combines updates: mean, robust (TFF's zeroing and clipping),
        secure (TFF's secure sum) or dp (differentially private); docs/privacy.md.
      robust_clip: Aggregation robust: norm that a client's whole update is clipped to; by default
        the 0.8 quantile of the clients' norms, as TFF estimates it.
      secure_bound: Aggregation secure: largest absolute value of an element of an update, times
        the client's weight; numbers are rounded to 2 * bound / 2^32.
      dp_noise_multiplier: Aggregation dp: standard deviation of the noise over the clip.
      dp_clip: Aggregation dp: norm that a client's whole update is clipped to; by default the
        median of the clients' norms, as TFF estimates it privately.
      dp_delta: Aggregation dp: delta of (epsilon, delta); by default clients^-1.1.
      target_epsilon: Aggregation dp: use the noise that gives this epsilon after all rounds.
      eval_every: Rounds between evaluations.
      eval_examples: Test this many random examples in rounds before the last, which tests all; all
        by default.
      evaluate: What is tested: server (the server's model), and with commas tiers (what a client of
        each tier would deploy) and clients (accuracy on each client's mix of labels).
      train_examples: Deal out this many random training examples; all by default.
      source: Where in which paper these numbers stand, and which of them do not.
    """

    model: str
    partition: str
    clients: int
    clients_per_round: int
    rounds: int
    batch_size: int
    learning_rate: str
    local_optimizer: str = "sgd"
    momentum: float = 0.0
    local_beta_1: float = 0.9
    local_beta_2: float = 0.999
    local_epsilon: float = 1e-7
    weight_decay: float = 0.0
    weight_decay_on: str = "kernels"
    clip_norm: Optional[float] = None
    precision: str = "float32"
    record_precision: str = "float32"
    server_optimizer: str = "sgd"
    server_learning_rate: Optional[float] = None
    server_beta_1: float = 0.9
    server_beta_2: float = 0.99
    server_tau: float = 1e-3
    local_steps: Optional[int] = None
    local_epochs: Optional[int] = None
    width: float = 1.0
    tiers: str = ""
    only_tiers: str = ""
    capacities: str = ""
    target_accuracy: Optional[float] = None
    sampler: str = ""
    sampling: str = "fixed"
    aggregation: str = "mean"
    robust_clip: Optional[float] = None
    secure_bound: float = 1000.0
    dp_noise_multiplier: Optional[float] = None
    dp_clip: Optional[float] = None
    dp_delta: Optional[float] = None
    target_epsilon: Optional[float] = None
    eval_every: int = 1
    eval_examples: Optional[int] = None
    evaluate: str = "server"
    train_examples: Optional[int] = None
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("clients", "clients_per_round", "rounds", "batch_size", "eval_every"):
            _require(getattr(self, name) >= 1, name, "be at least 1", getattr(self, name))
        clients, per_round = self.clients, self.clients_per_round
        _require(clients <= MOST_CLIENTS, "clients", f"be at most {MOST_CLIENTS:,}", clients)
        _require(bool(self.model), "model", "be given", self.model)
        _require(0 < self.width <= 1, "width", "be in (0, 1]", self.width)
        _require(0 <= self.momentum < 1, "momentum", "be in [0, 1)", self.momentum)
        _require(self.weight_decay >= 0, "weight_decay", "not be negative", self.weight_decay)
        known = self.weight_decay_on in ("kernels", "all")
        _require(known, "weight_decay_on", "be kernels or all", self.weight_decay_on)
        tested = self.eval_examples
        _require(tested is None or tested >= 1, "eval_examples", "be at least 1", tested)
        for kind in self.tested:
            checks.one_of("evaluate", kind, TESTED)
        clip = self.clip_norm
        _require(clip is None or clip > 0, "clip_norm", "be positive", clip)
        target = self.target_accuracy
        _require(target is None or 0 < target <= 1, "target_accuracy", "be in (0, 1]", target)
        limit = f"be at most clients ({clients})"
        _require(per_round <= clients, "clients_per_round", limit, per_round)
        partition_lib.parse(self.partition)
        self._check_local_work()
        self._check_schedule()
        self._check_sampler()
        self._check_aggregation()
        self._check_tiers()

    def _check_local_work(self) -> None:
        given = f"local_steps={self.local_steps}, local_epochs={self.local_epochs}"
        if (self.local_steps is None) == (self.local_epochs is None):
            raise ValueError(
                f"exactly one of local_steps and local_epochs must be given. Received: {given}"
            )
        if (self.local_steps or 0) < 1 and (self.local_epochs or 0) < 1:
            raise ValueError(f"local_steps or local_epochs must be at least 1. Received: {given}")
        examples = (self.local_steps or 1) * self.batch_size
        if examples > MOST_EXAMPLES or (self.local_epochs or 1) > MOST_EPOCHS:
            raise ValueError(
                f"local_steps times batch_size must be at most {MOST_EXAMPLES:,}, local_epochs at "
                f"most {MOST_EPOCHS:,}. Received: {given}, batch_size={self.batch_size}"
            )

    def _check_schedule(self) -> None:
        text = self.learning_rate
        rounds = [float(start) for start in re.findall(rf",({_NUMBER}):", text)]
        rising = all(a < b for a, b in zip([0, *rounds], rounds))
        form = (
            "read like 0.1, 0.4,800:0.04 (rounds rising), 0.1*0.998, 0.4~5 (warm-up) or module:fn"
        )
        known = _SCHEDULE.fullmatch(text) is not None or own_code.is_name(text)
        _require(known and rising, "learning_rate", form, text)

    def _check_sampler(self) -> None:
        known = not self.sampler or own_code.is_name(self.sampler)
        _require(known, "sampler", "read like my_module:fn", self.sampler)

    def _check_aggregation(self) -> None:
        checks.one_of("sampling", self.sampling, SAMPLINGS)
        checks.one_of("aggregation", self.aggregation, aggregators.NAMES)
        for name in ("robust_clip", "secure_bound", "dp_clip"):
            aggregators.check_positive(name, getattr(self, name))
        noise, delta, epsilon = self.dp_noise_multiplier, self.dp_delta, self.target_epsilon
        known = noise is None or 0 <= noise <= checks.LARGEST
        _require(known, "dp_noise_multiplier", "be finite and not negative", noise)
        _require(delta is None or 0 < delta < 1, "dp_delta", "be in (0, 1)", delta)
        known = epsilon is None or 0 < epsilon <= checks.LARGEST
        _require(known, "target_epsilon", "be positive and finite", epsilon)

    def _check_tiers(self) -> None:
        if self.capacities:
            _require(not self.tiers, "capacities", "be given without tiers", self.capacities)
            tiers.parse_drawn(self.capacities)
        if not self.tiers:
            _require(not self.only_tiers, "only_tiers", "be given with tiers", self.only_tiers)
            return
        total = sum(tier.count for tier in self._tiers)
        _require(total == self.clients, "tiers", f"add up to clients ({self.clients})", self.tiers)
        limit = f"be at most {self.participants}, the clients that take part"
        fits = self.clients_per_round <= self.participants
        _require(fits, "clients_per_round", limit, self.clients_per_round)

    @property
    def tested(self) -> list[str]:
        """What is tested, of `TESTED`; the server's model always is."""
        return self.evaluate.split(",")

    @property
    def participants(self) -> int:
        """Number of clients that can be drawn."""
        if not self.tiers:
            return self.clients
        return sum(tier.count for tier in tiers.select(self._tiers, self.only_tiers))

    @property
    def _tiers(self) -> tuple[Tier, ...]:
        return tiers.parse(self.tiers, clients=self.clients)


class Inputs(Protocol):
    """What a model must know of data; tasks and `FederatedData` say it."""

    @property
    def input_shape(self) -> tuple[int, ...]: ...

    @property
    def x_dtype(self) -> Union[str, np.dtype]: ...


@dataclasses.dataclass(frozen=True)
class Task:
    """A data set, how it reaches the model, and the hyperparameters of each paper that uses it.

    Attributes:
      name: As in --task.
      description: One line.
      num_classes: Classes of the real data.
      input_shape: One input of the model, of the real data; embedded data may differ
        (`FederatedData.input_shape`).
      x_dtype: NumPy type of inputs as stored.
      examples: About how many training and test examples the real data have.
      writers: How many natural clients the real data have, for the partition `natural`; 0 for
        none.
      loss: 'categorical' (softmax cross entropy) or 'binary' (one logit), of
        `tff_partial.objectives`, or a function of labels and logits; None is
        the one that fits the model.
      demo: Settings of a small run on embedded data, and on real data too if there is no
        `real_demo`.
      papers: Settings by paper, with their places.
      default_paper: The key of `papers` that --preset=paper means.
      preprocess: In the graph, from a batch as stored to the model's input.
      tfds_name: Name in tensorflow-datasets, or None.
      load_embedded: From a seed, the data set that is always there.
      load_real: From a data folder (None: the default one), the real data set; raises `DataError`.
      is_prepared: From a data folder, whether `load_real` works without a network.
      metrics: What an evaluation reports beside the loss, of `tff_partial.objectives`, or
        functions of labels and logits.
      augment: In the graph, from a batch as stored and a seed [2] to another such batch; used only
        when asked for.
      generate: From (partition, clients, seed), the data itself, in place of the loaders.
      real_demo: Settings of a small run on the real data.
    """

    name: str
    description: str
    num_classes: int
    input_shape: tuple[int, ...]
    loss: Optional[objectives.Objective]
    demo: Settings
    papers: Mapping[str, Settings]
    default_paper: str
    preprocess: Callable[[Tensor], Tensor]
    x_dtype: str = "uint8"
    examples: tuple[int, int] = (5_000, 1_000)
    writers: int = 0
    tfds_name: Optional[str] = None
    load_embedded: Optional[Callable[[int], Arrays]] = None
    load_real: Optional[Callable[[Optional[str]], Arrays]] = None
    is_prepared: Optional[Callable[[Optional[str]], bool]] = None
    metrics: tuple[objectives.Objective, ...] = ("accuracy",)
    augment: Optional[Callable[[Tensor, Tensor], Tensor]] = None
    generate: Optional[Callable[[str, int, int], FederatedData]] = None
    real_demo: Optional[Settings] = None

    def __post_init__(self) -> None:
        _require(self.name.isidentifier(), "name", "be an identifier", self.name)
        classes, shape = self.num_classes, self.input_shape
        _require(classes >= 2, "num_classes", "be at least 2", classes)
        objectives.check(self.loss, self.metrics)
        fits = self.loss != "binary" or classes == 2
        _require(fits, "num_classes", "be 2 for a binary loss", classes)
        _require(min(shape, default=0) >= 1, "input_shape", "have positive sizes", shape)
        paper, known = self.default_paper, sorted(self.papers)
        _require(paper in known, "default_paper", f"be one of {known}", paper)
        unsourced = [paper for paper, settings in self.papers.items() if not settings.source]
        _require(not unsourced, "papers", "say where their numbers stand", unsourced)
        loaders = (self.load_embedded, self.load_real, self.is_prepared)
        if any(loader is None for loader in loaders) and self.generate is None:
            raise ValueError(
                f"{self.name} must have load_embedded, load_real and is_prepared, or generate"
            )

    def has_real(self, data: str, data_dir: Optional[str]) -> bool:
        """Return whether data of this kind, in this folder, are real."""
        found = data == "auto" and self.is_prepared is not None and self.is_prepared(data_dir)
        return data == "tfds" or found

    def small(self, is_real: bool) -> Settings:
        """Return the settings of a small run on real or embedded data."""
        return self.real_demo if is_real and self.real_demo is not None else self.demo


def _require(condition: bool, name: str, what: str, value: object) -> None:
    if not condition:
        raise ValueError(f"{name} must {what}. Received: {name}={value}")
