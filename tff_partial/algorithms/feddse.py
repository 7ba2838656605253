"""FedDSE: a client trains the neurons that its data activate.

Wang et al., FedDSE: distribution-aware sub-model extraction for federated learning over
resource-constrained devices, 2024, algorithm 1. With r the client's rate:

    for each round t:
        for each client n of the cohort, in parallel:
            h_{l,i} <- mean activation of neuron i of layer l over D_n, by inference with w_t
            kept    <- ceil(r m_l) of the m_l neurons of each layer, drawn without replacement with
                       p(i) = exp(h_i / T) / sum_j exp(h_j / T); at T = 0 those of the largest h
            w^n     <- local SGD of the small model from w_t[kept]
        each element of w_{t+1} <- mean of w^n over the clients that hold it

With `distill` > 0 the server then distils the ensemble of the clients' sub-models into w_{t+1}
(FedDF, section 7.6; processes.distillation). Static batch normalisation and the scaler are the
paper's; masked logits and clipping are those of HeteroFL's code, whose set-up the paper follows.

The paper's mask M is on the outputs of a layer only, M_{l,i,j} = 0 if neuron i of layer l is
pruned, and so is the upload of its table 7. A kept neuron then keeps its weights from pruned
neurons of the layer before. They see no input and do not learn (but decay, if weights do), and
count in the mean. That is `mask` = outputs. By default (`both`) the small model is sliced on both
sides: such weights are not the client's, and their mean is over the clients that keep both neurons.
It is smaller by far, and trained at its size; with the mask on outputs a model of full size is
trained here, with zeros, and its cost is that of what is held.

With `inference_data` = generated the server chooses, without the client's data (appendix A.3): it
trains a generator against w_t, lets it make examples of the client's labels, whose shares the
client tells, and sends the sub-model (submodels.pseudo_data). The paper gives no details and no
results of this.

Differences from the paper: layers whose outputs are added share their neurons, and their score
is the mean over their activations. Left open there: the score of a channel of a convolution is its
mean over positions as well.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Optional

from tff_partial import costs
from tff_partial.algorithms.declaration import Algorithm, Defaults
from tff_partial.core import checks
from tff_partial.core.aggregators import AggregatorLike, as_aggregator
from tff_partial.core.model import Model, ModelSpec
from tff_partial.core.types import Array, LearningProcess, Record, Tensor
from tff_partial.processes import distillation, submodel
from tff_partial.submodels import narrowing, pseudo_data, selection
from tff_partial.submodels import scores as activations
from tff_partial.submodels.groups import Channels

MASKS = ("both", "outputs")
INFERENCE_DATA = ("local", "generated")
_BATCH = 100  # examples at a time in the inference pass
_GENERATED = 256  # pseudo examples of a client, where their number is not given
REFUSED = {"dp": "which neurons clients choose tells what data they have"}


@dataclasses.dataclass(frozen=True)
class Params(submodel.HeteroParams):
    """Hyperparameters of FedDSE.

    Attributes:
      temperature: T of the sampling of neurons; 0 takes the most active ones.
      inference_examples: Number of local examples that are looked at; 0: all.
      inference_data: Activations are those of the client's `local` data, or of data that the
        server has `generated` for the client's labels.
      mask: A client holds weights between kept neurons (`both` sides), or all weights into kept
        neurons (`outputs`).
      distill: Number of unlabelled examples that the server distils with; 0: it does not.
      distill_steps: Steps of the distillation after every round.
      distill_learning_rate: Learning rate of the distillation's Adam.
      server_examples: Number -> that many unlabelled examples, as clients hold theirs.
    """

    temperature: float = 0.0
    inference_examples: int = 0
    inference_data: str = "local"
    mask: str = "both"
    distill: int = 0
    distill_steps: int = 50
    distill_learning_rate: float = 1e-3
    server_examples: Optional[Callable[[int], Array]] = dataclasses.field(
        default=None, compare=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("temperature", "inference_examples"):
            if (value := getattr(self, name)) < 0:
                raise ValueError(f"{name} must not be negative. Received: {name}={value}")
        distillation.check(
            self.distill, self.distill_steps, self.distill_learning_rate, prefix="distill_"
        )
        checks.one_of("mask", self.mask, MASKS)
        checks.one_of("inference_data", self.inference_data, INFERENCE_DATA)

    def at_rate(self, model: ModelSpec, rate: float) -> submodel.Submodel:
        small = super().at_rate(model, rate)
        return submodel.masked(model, small, self.scaler) if self.mask == "outputs" else small

    def cost_at(self, model: ModelSpec, rate: float) -> costs.ClientCost:
        """Return a client's cost of a round: it receives the whole model and runs it once.

        Unless the server has chosen: then it receives what it trains.
        """
        small, batch = self.at_rate(model, rate), self.local.batch_size
        outputs_only = self.mask == "outputs"
        held = narrowing.create_padded(model, small.sizes) if outputs_only else small.spec
        trained, whole = costs.narrow(model, held, batch), costs.whole(model, batch)
        if self.inference_data == "generated":
            return trained
        looks = 0 if trained.parameters == whole.parameters else whole.forward
        return dataclasses.replace(trained, bytes_down=whole.bytes_down, record=looks)


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""
    distill = distillation.create(
        params.server_examples, params.distill, params.distill_steps, params.distill_learning_rate
    )
    as_aggregator(aggregator).check(REFUSED)
    outputs_only = params.mask == "outputs"
    rule = _rule(model, params)
    return submodel.build(
        model, params, rule, distill=distill, outputs_only=outputs_only, aggregator=aggregator
    )


def _rule(model: ModelSpec, params: Params) -> selection.CreateRule:
    """Return how a client's channels are chosen."""

    def create_rule(channels: Channels) -> selection.Rule:
        whole = model.instantiate(initial=False)
        scores = _build_scores(whole, channels, params)

        def rule(request: selection.Request) -> list[Tensor]:
            if all(k == g.size for k, g in zip(request.sizes, channels.groups)):
                return selection.ordered(channels)(request)  # there is nothing to choose
            whole.assign(request.weights)
            return selection.sampled(scores(request.record), request, params.temperature)

        return rule

    return create_rule


def _build_scores(
    whole: Model, channels: Channels, params: Params
) -> Callable[[Record], list[Tensor]]:
    """Return a function of a client's record: the score of each channel of each group."""
    if params.inference_data == "local":
        score = activations.build_scores(whole, channels, params.inference_examples, _BATCH)
        return lambda record: score(record["x"], record["seed"])
    examples = params.inference_examples or _GENERATED
    generate = pseudo_data.build(whole, channels.classes, examples)
    score = activations.build_scores(whole, channels, 0, _BATCH, lambda x: x)
    return lambda record: score(generate(record["y"], record["seed"]), record["seed"])


ALGORITHM = Algorithm(
    name="feddse",
    title="clients train the neurons that their data activate",
    paper="feddse",
    params=Params,
    build=build,
    cost=submodel.cost,
    needs=("tiers", "server_examples"),
    rule=_rule,
    tiers_are_rates=True,
    refused=REFUSED,
    refused_with=lambda params: distillation.REFUSED if params.distill else {},
    defaults=Defaults(clip_norm=1.0, normalization="static"),
)
