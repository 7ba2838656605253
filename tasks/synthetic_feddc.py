"""The synthetic data of FedDyn's and FedDC's public code, which FedUMF's figure A5 is about.

They are not those of FedProx (`synthetic.py`), though they have the same names:

    y = argmax(W x + b),   W, b ~ N(u_k, 1),   u_k ~ N(0, alpha);   if alpha = 0, one W, b ~ N(0, 1)
                                                                    for all clients
    x ~ N(v_k, Sigma),     v_k ~ N(B_k, 1),    B_k ~ N(0, beta);    if beta = 0, v_k = 0
                           Sigma = diag(j^-1.2)

with 30 features, 5 classes and 200 examples a client. (0,0) is homogeneous: all clients draw from
one distribution. FedProx's Synthetic(0,0) is not: there each client has a model and a mean input of
its own whatever alpha and beta are.

The test set is the clients' examples themselves, as in that code; here those of the first 100
clients. A client is a pure function of (seed, k), made when it is asked for.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from . import synthetic
from .federated import FederatedData
from .task import Task

_FEATURES, _CLASSES, _SIZE = 30, 5, 200


def create_client(alpha: float, beta: float, seed: int, client: int) -> synthetic.Examples:
    """Return x float32 [200, 30] and y int32 [200] of a client, a function of the arguments."""
    rng = np.random.default_rng([seed, client])
    # Three words, so that no client has this generator.
    kernel, bias = _model(0.0, np.random.default_rng([seed, 0, 1]))
    mean = np.zeros(_FEATURES)
    if alpha:
        kernel, bias = _model(rng.normal(0.0, alpha), rng)
    if beta:
        mean = rng.normal(rng.normal(0.0, beta), 1.0, _FEATURES)
    deviation = np.arange(1, _FEATURES + 1) ** -0.6
    x = mean + deviation * rng.normal(size=(_SIZE, _FEATURES))
    y = np.argmax(x @ kernel + bias, axis=1)
    return x.astype(np.float32), y.astype(np.int32)


def _model(u: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(u, 1.0, (_FEATURES, _CLASSES)), rng.normal(u, 1.0, _CLASSES)


def generate(partition: str, clients: int, seed: int) -> FederatedData:
    """Return federated data for 'synthetic:ALPHA,BETA'; see `synthetic.parse`."""
    alpha, beta = synthetic.parse(partition)

    def examples(client: int) -> synthetic.Examples:
        return create_client(alpha, beta, seed, client)

    description = f"generated: FedDC's synthetic data ({alpha:g}, {beta:g})"
    return synthetic.federated(
        examples, lambda client: _SIZE, clients, examples, _CLASSES, description
    )


_DEMO = replace(
    synthetic.DEMO,
    partition="synthetic:0,0",
    clients=20,
    clients_per_round=5,
    learning_rate="0.1",
)

TASK = Task(
    name="synthetic_feddc",
    description=(
        "Synthetic data of FedDC's code, homogeneous for (0, 0), 30 features, 5 classes; "
        "generated, any number of clients"
    ),
    num_classes=_CLASSES,
    input_shape=(_FEATURES,),
    x_dtype="float32",
    loss="categorical",
    preprocess=synthetic.as_float,
    generate=generate,
    demo=_DEMO,
    papers={
        "fedumf_appendix": replace(
            _DEMO,
            partition="synthetic:1,0",
            clients_per_round=3,
            rounds=200,
            learning_rate="0.1*0.998",
            weight_decay_on="all",
            source=(
                "FedUMF, appendix A, figure A5: 20 clients, 15 %, batch 10, one of (0,0) "
                "(homogeneous), (0,1), (1,0), for which it refers to FedDC. Not stated: model "
                "(softmax, as in FedDC's code, but not started from zero), whether its one local "
                "round is an epoch (so here), rounds (200), momentum and weight decay (none here; "
                "1e-5 in FedDC's code)."
            ),
        ),
    },
    default_paper="fedumf_appendix",
)
