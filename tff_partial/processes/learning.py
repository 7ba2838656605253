"""Composes `tff.learning` processes from what an algorithm says about itself.

distributor: the server's weights to every client
client work: the local loop on the client's part; its delta, and a weight for each variable
aggregator:  the mean over contributors (aggregation.py)
finalizer:   the step of the server's optimiser (finalizers.py), by default weights + mean
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Callable, ClassVar, Optional

from typing_extensions import TypeAlias

from tff_partial.core import checks, tracing
from tff_partial.core.aggregators import MEAN, Aggregator, AggregatorLike, Held, as_aggregator
from tff_partial.core.lazy import tf, tff
from tff_partial.core.local_training import LocalTraining
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.server_optimizers import ServerOptimizer
from tff_partial.core.types import FinalizerProcess, LearningProcess, Structure, Tensor, Variable
from tff_partial.layers import parts
from tff_partial.processes import client_work, finalizers, tiered
from tff_partial.processes.client_work import ClientFn, train_part
from tff_partial.tiers import NAMES, Tier, as_tiers

SUM = ServerOptimizer()
WEIGHTINGS = ("examples", "uniform")
PartFn = Callable[[Model], parts.Part]
Factory: TypeAlias = "tff.aggregators.WeightedAggregationFactory"


@dataclasses.dataclass(frozen=True)
class TieredParams:
    """Hyperparameters that every algorithm with tiers has.

    Attributes:
      local: How a client trains.
      tiers: The tiers, or how they are written; a record's `tier` is a position in it.
      weighting: Weight of a client in the mean: `uniform`, as in the papers, or `examples`.
      server: What the server makes of the mean.
    """

    local: LocalTraining = dataclasses.field(default_factory=lambda: LocalTraining(steps=10))
    tiers_are_rates: ClassVar[bool] = False
    tiers: tuple[Tier, ...] = as_tiers(NAMES)
    weighting: str = "uniform"
    server: ServerOptimizer = SUM

    def __post_init__(self) -> None:
        checks.finite_fields(self)
        check_mean(self.weighting)
        object.__setattr__(self, "tiers", as_tiers(self.tiers, self.tiers_are_rates))

    @property
    def tier_names(self) -> tuple[str, ...]:
        """The names of the tiers, in results."""
        return tuple(tier.label for tier in self.tiers)


def build_tiered_process(
    model: ModelSpec,
    params: TieredParams,
    part_fn: Callable[[Tier], PartFn],
    aggregator: AggregatorLike = None,
) -> LearningProcess:
    """Return the process whose clients train the part that belongs to their tier."""
    return build_learning_process(
        model,
        params.local,
        [part_fn(tier) for tier in params.tiers],
        weighting=params.weighting,
        server=params.server,
        aggregator=aggregator,
        tier_names=params.tier_names,
    )


def build_learning_process(
    model: ModelSpec,
    local: LocalTraining,
    part_fns: Sequence[PartFn] = (parts.everything,),
    pull: float = 0.0,
    weighting: str = "examples",
    server: ServerOptimizer = SUM,
    aggregator: AggregatorLike = None,
    tier_names: Sequence[str] = (),
    cycle: Sequence[int] = (),
) -> LearningProcess:
    """Return the process whose clients train parts of the model.

    Args:
      model: The model.
      local: How a client trains.
      part_fns: Which part of the model a client trains, for each tier, or for each phase.
      pull: Weight of the penalty 1/2 |w - x|^2, x the server's model, on the trained part.
      weighting: Clients count by their `examples`, or are `uniform`.
      server: What the server makes of the mean update.
      aggregator: How updates are combined (`core.aggregators`), or a weighted TFF aggregation
        factory; the mean over contributors by default.
      tier_names: If given, the training accuracy of each tier is reported by its name.
      cycle: If given, the phase of each round of a cycle, that of all clients.

    Raises:
      ValueError: If `weighting` is not valid.
    """
    check_mean(weighting)
    combined = as_aggregator(aggregator)
    combined.check_weighting(weighting)

    def create_client_fns(tiers: Sequence[int]) -> list[ClientFn]:
        built = model.instantiate(local.precision, initial=False)
        parts_of_tiers = [part_fns[tier](built) for tier in tiers]
        return [train_part(built, part, local, pull, weighting) for part in parts_of_tiers]

    def held(tier: int, round_num: Tensor) -> Structure:
        built = model.instantiate(initial=False)
        if not cycle:
            return _shares_held(built, part_fns[tier](built))
        shares = [_shares_held(built, part_fn(built)) for part_fn in part_fns]
        own = tiered.phase(cycle, round_num)
        return tf.nest.map_structure(lambda *of_phases: tf.gather(of_phases, own), *shares)

    return compose(
        model,
        create_client_fns,
        len(part_fns),
        server,
        combined,
        tier_names,
        held=held,
        cycle=cycle,
    )


def _shares_held(model: Model, part: parts.Part) -> Structure:
    """Return 1 for each variable that a part trains, else 0, as `client_work` weighs updates."""
    trained = {id(v) for v in (*part.variables, *part.statistics)}

    def share(variable: Variable) -> Tensor:
        factor = tf.convert_to_tensor(part.weight(variable), tf.float32)
        return factor if id(variable) in trained else tf.zeros_like(factor)

    return tf.nest.map_structure(share, model.weights)


def compose(
    model: ModelSpec,
    create_client_fns: client_work.CreateClientFns,
    num_tiers: int,
    server: ServerOptimizer = SUM,
    aggregator: Aggregator = MEAN,
    tier_names: Sequence[str] = (),
    finalizer: Optional[FinalizerProcess] = None,
    is_kept: bool = True,
    held: Optional[Held] = None,
    wrap: Optional[Callable[[Factory, bool], Factory]] = None,
    cycle: Sequence[int] = (),
) -> LearningProcess:
    """Return the process from what clients of each tier do, as `client_work.build` takes it.

    The aggregator may have to know what clients of each tier have `held`; `wrap` makes another
    aggregation of one that says who trained, and says so or not. A `finalizer` is what the server
    does with the mean in place of adding it. With several tiers, `next` is traced tier by tier
    where the runtime can do that (`tiered`); with a `cycle`, phases take their place. What clients
    do may be kept (`tracing`) if `is_kept`: it must be determined by the settings of the run then.
    """
    store = tracing.installed_for(model) if is_kept else None
    work = functools.partial(
        client_work.build,
        model,
        create_client_fns,
        num_tiers,
        tier_names,
        store=store,
        aggregator=aggregator,
        cycle=cycle,
    )
    first = work(only=0)
    result = first.next.type_signature.result.result.member
    aggregator.check_tiers(1 if cycle else num_tiers)
    says_who = finalizer is None and server.name != "sgd"
    factory = aggregator.mean(says_who or wrap is not None, held)
    if wrap is not None:
        factory = wrap(factory, says_who)
    initial_weights = build_initial_weights(model)
    broadcast = tff.learning.templates.build_broadcast_process(model.weights_type)
    mean = factory.create(result.update, result.update_weight)
    finish = finalizer or finalizers.build(
        model, server, mean.next.type_signature.result.result.member
    )
    if not aggregator.REPORTS_TRAINING:
        finish = finalizers.with_positive_variances(model, finish)

    def composed(clients: tff.learning.templates.ClientWorkProcess) -> LearningProcess:
        return tff.learning.templates.compose_learning_process(
            initial_weights, broadcast, clients, mean, finish
        )

    process = composed(first)
    if num_tiers == 1:
        return process
    return tff.learning.templates.LearningProcess(
        process.initialize,
        tiered.create(process.next, lambda tier: composed(work(only=tier)).next, num_tiers, cycle),
        process.get_model_weights,
        process.set_model_weights,
        get_hparams_fn=process.get_hparams,
        set_hparams_fn=process.set_hparams,
    )


def check_mean(weighting: str) -> None:
    """Raise a ValueError if the weighting is unknown."""
    checks.one_of("weighting", weighting, WEIGHTINGS)


def build_initial_weights(model: ModelSpec) -> tff.Computation:
    """Return a TFF computation that returns the initial weights."""
    return tff.tensorflow.computation(lambda: model.instantiate().weights)
