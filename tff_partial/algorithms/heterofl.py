"""HeteroFL: a client trains the first channels of every layer.

Diao et al., HeteroFL: computation and communication efficient federated learning for heterogeneous
clients, 2021; as Wang et al., FedDSE: distribution-aware sub-model extraction for federated
learning over resource-constrained devices, 2024, compare with it. With r_k the client's rate:

    for each round t:
        for each client k of the cohort, in parallel:
            kept <- the first ceil(r_k m) of the m channels of every group
            w_k  <- local SGD of the small model from w_t[kept]
        each element of w_{t+1} <- mean of w_k over the clients that hold it

The reference code's additions are on by default: activations divided by r_k in training (`scaler`),
logits of classes that the client lacks set to 0 (`masked_logits`), the last layer's weights of a
class averaged over the clients that have it, whether logits are masked or not (`masked_rows`),
static batch normalisation (--normalization=static) and gradients clipped to norm 1 (--clip_norm).
That code's weight decay, of all parameters and after clipping, is --weight_decay_on=all, which
FedDSE's presets have. Its networks are `four_conv_cnn` and `preact_resnet18`.

Differences from the paper: a flatten layer is sliced too, so every builder here can be used.
Differences from the code: biases of convolutions start at 0, there at random; static batch
normalisation is evaluated with biased variances, there with unbiased ones; in a network without
normalisation the scaler divides the outputs of convolutions.
"""

from __future__ import annotations

from tff_partial.algorithms.declaration import Algorithm, Defaults
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import LearningProcess
from tff_partial.processes import submodel
from tff_partial.submodels import selection

Params = submodel.HeteroParams


def build(model: ModelSpec, params: Params, aggregator: AggregatorLike = None) -> LearningProcess:
    """Return the process."""
    return submodel.build(model, params, selection.ordered, aggregator=aggregator)


ALGORITHM = Algorithm(
    name="heterofl",
    title="clients train the first channels of every layer",
    paper="feddse",
    params=Params,
    build=build,
    cost=submodel.cost,
    needs=("tiers",),
    rule=lambda model, params: selection.ordered,
    tiers_are_rates=True,
    defaults=Defaults(clip_norm=1.0, normalization="static"),
)
