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

Differences from the paper: its mask M is on the outputs of a layer only, M_{l,i,j} = 0 if neuron i
of layer l is pruned, so that a kept neuron keeps its weights from pruned neurons of the layer
before. They see no input and do not learn, but count in the mean, with an update of zero. Here the
small model is sliced on both sides: such weights are not the client's, and their mean is over the
clients that keep both neurons. Layers whose outputs are added share their neurons, and their score
is the mean over their activations. Left open there: the score of a channel of a convolution is its
mean over positions as well.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Optional

from tff_partial import costs
from tff_partial.algorithms.declaration import Algorithm, Defaults
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Array, LearningProcess, Tensor
from tff_partial.processes import distillation, submodel
from tff_partial.submodels import scores as activations
from tff_partial.submodels import selection
from tff_partial.submodels.groups import Channels

_BATCH = 100  # examples at a time in the inference pass


@dataclasses.dataclass(frozen=True)
class Params(submodel.HeteroParams):
    """Hyperparameters of FedDSE.

    Attributes:
      temperature: T of the sampling of neurons; 0 takes the most active ones.
      inference_examples: Number of local examples that are looked at; 0: all.
      distill: Number of unlabelled examples that the server distils with; 0: it does not.
      distill_steps: Steps of the distillation after every round.
      distill_learning_rate: Learning rate of the distillation's Adam.
      server_examples: Number -> that many unlabelled examples, as clients hold theirs.
    """

    temperature: float = 0.0
    inference_examples: int = 0
    distill: int = 0
    distill_steps: int = 50
    distill_learning_rate: float = 1e-3
    server_examples: Optional[Callable[[int], Array]] = dataclasses.field(
        default=None, compare=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("temperature", "inference_examples", "distill"):
            if (value := getattr(self, name)) < 0:
                raise ValueError(f"{name} must not be negative. Received: {name}={value}")
        for name in ("distill_steps", "distill_learning_rate"):
            if (value := getattr(self, name)) <= 0:
                raise ValueError(f"{name} must be positive. Received: {name}={value}")

    def cost_at(self, model: ModelSpec, rate: float) -> costs.ClientCost:
        """Return a client's cost of a round: it receives the whole model and runs it once."""
        trained = super().cost_at(model, rate)
        whole = costs.whole(model, self.local.batch_size)
        looks = 0 if trained.parameters == whole.parameters else whole.forward
        return dataclasses.replace(trained, bytes_down=whole.bytes_down, record=looks)


def build(model: ModelSpec, params: Params) -> LearningProcess:
    """Return the process."""

    def create_rule(channels: Channels) -> selection.Rule:
        whole = model.instantiate(initial=False)
        score = activations.build_scores(whole, channels, params.inference_examples, _BATCH)

        def rule(request: selection.Request) -> list[Tensor]:
            if all(k == g.size for k, g in zip(request.sizes, channels.groups)):
                return selection.ordered(channels)(request)  # there is nothing to choose
            whole.assign(request.weights)
            scores = score(request.record["x"], request.record["seed"])
            return selection.sampled(scores, request, params.temperature)

        return rule

    return submodel.build(model, params, create_rule, distill=_distillation(params))


def _distillation(params: Params) -> Optional[distillation.Distillation]:
    if not params.distill:
        return None
    if params.server_examples is None:
        raise ValueError(f"server_examples must be given. Received: distill={params.distill}")
    examples = params.server_examples(params.distill)
    return distillation.Distillation(examples, params.distill_steps, params.distill_learning_rate)


ALGORITHM = Algorithm(
    name="feddse",
    title="clients train the neurons that their data activate",
    paper="feddse",
    params=Params,
    build=build,
    cost=submodel.cost,
    needs=("tiers", "server_examples"),
    tiers_are_rates=True,
    defaults=Defaults(clip_norm=1.0, normalization="static"),
)
