"""FedDC: clients learn their drift, and train so that model and drift together are the server's.

Gao et al., FedDC: Federated learning with non-IID data via local drift decoupling and correction,
2022; as the appendix of Li et al., Model fusion from unauthorized clients in federated learning,
2022, runs it. What clients and server keep of it: processes.drift_correction.

    h_i <- 0;  c_i <- 0 for every client;  H <- 0;  c <- 0
    for each round:
        for each client i of the cohort S, in parallel:
            y <- K steps of SGD with momentum mu from x on
                     f_i(w) + alpha / 2 * |w + h_i - x|^2 + (1 - mu) * <c - c_i, w>
            h_i <- h_i + (y - x);  c_i <- (x - y) / (K' eta) - (1 - mu) * (c - c_i)
        H <- H + 1/N * sum of (y - x);  c <- c + 1/N * sum of the changes of c_i
        x <- mean of y + H

mu = 0 and K' = K in the paper; scaffold.py says why they are here with momentum.

The mean of the last local models of all clients is evaluated as `all_clients`.

H is the sum of all displacements; where the loss is flat only alpha damps it. Demos, of 30 rounds
where the papers have 300, take alpha = 0.1 in place of 0.01 (docs/studies.md).

Differences from the paper: as in its public code, the drift that is added to the mean is that of
all clients, not only of the cohort, and the gradient correction has SCAFFOLD's form. That code
also divides alpha and c by a client's share of the examples (its number over the mean), counts the
changes of c_i that many times, and takes the first round's eta and an average client's K for c_i;
here all clients have the same, and eta and K are the client's own in the round. Clipping (10 there)
is `--clip_norm`, its weight decay (1e-3, of all parameters, after clipping) `--weight_decay` with
`--weight_decay_on=all`.
"""

from __future__ import annotations

from tff_partial.algorithms.declaration import Algorithm, Defaults
from tff_partial.core.aggregators import AggregatorLike
from tff_partial.core.model import ModelSpec
from tff_partial.processes import drift_correction, stateful, uploads

Params = drift_correction.DriftParams


def build(
    model: ModelSpec, params: Params, aggregator: AggregatorLike = None
) -> stateful.StatefulProcess:
    """Return the process."""
    rules = drift_correction.create_rules(params)
    return stateful.build(model, params.local, rules, params.weighting, aggregator)


ALGORITHM = Algorithm(
    name="feddc",
    title="clients learn their drift and correct it",
    paper="fedumf_appendix",
    params=Params,
    build=build,
    cost=drift_correction.cost,
    needs=("population",),
    refused=uploads.REFUSED,
    defaults=Defaults(demo={"alpha": 0.1}),
)
