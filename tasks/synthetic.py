"""Synthetic(alpha, beta) of FedProx.

Li et al., "Federated Optimization in Heterogeneous Networks", 2020, section 5.1.

Client k has a model and inputs of its own:

    y = argmax(softmax(W x + b)),   W, b ~ N(u_k, 1),   u_k ~ N(0, alpha)
    x ~ N(v_k, Sigma),              v_k ~ N(B_k, 1),    B_k ~ N(0, beta),   Sigma = diag(j^-1.2)

with 60 features and 10 classes; alpha says how much the models differ, beta how much the inputs do.
A client has floor(log-normal(4, 2)) + 50 examples, the last fifth of which is held out for the
test.

Differences from the paper: sizes are capped at 1,000; alpha and beta are standard deviations, as in
the authors' code; a client is a pure function of (seed, k), made when it is asked for, so that a
population costs nothing; the test set holds the held-out examples of the first 100 clients.

Clients differ for (0,0) too. The homogeneous (0,0) of FedDyn, FedDC and FedUMF's figure A5 is that
of `synthetic_feddc.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, NamedTuple

import numpy as np

from tff_partial.core.types import Tensor

from . import partition as partition_lib
from .federated import FederatedData
from .task import Settings, Task

_FEATURES, _CLASSES = 60, 10
_MAX_SIZE, _TEST_CLIENTS = 1000, 100
Examples = tuple[np.ndarray, np.ndarray]  # x and y


class Client(NamedTuple):
    """A client: x float32 [n, 60], y int32 [n]; those from `train_size` on are held out."""

    x: np.ndarray
    y: np.ndarray
    train_size: int


def size(seed: int, client: int) -> int:
    """Return how many examples a client has, held-out ones included."""
    return _size(np.random.default_rng([seed, client]))


def _size(rng: np.random.Generator) -> int:
    return int(min(rng.lognormal(4.0, 2.0) + 50, _MAX_SIZE))


def create_client(alpha: float, beta: float, seed: int, client: int) -> Client:
    """Return client number `client`: a pure function of the arguments."""
    rng = np.random.default_rng([seed, client])
    n = _size(rng)
    u, centre = rng.normal(0.0, alpha), rng.normal(0.0, beta)
    kernel, bias = rng.normal(u, 1.0, (_FEATURES, _CLASSES)), rng.normal(u, 1.0, _CLASSES)
    v = rng.normal(centre, 1.0, _FEATURES)
    deviation = np.arange(1, _FEATURES + 1) ** -0.6
    x = v + deviation * rng.normal(size=(n, _FEATURES))
    y = np.argmax(x @ kernel + bias, axis=1)
    return Client(x.astype(np.float32), y.astype(np.int32), n * 4 // 5)


def parse(partition: str) -> tuple[float, float]:
    """Return (alpha, beta) of 'synthetic:ALPHA,BETA'.

    Raises:
      ValueError: for another partition.
    """
    name, arguments = partition_lib.parse(partition)
    if name != "synthetic":
        raise ValueError(
            "partition must read synthetic:ALPHA,BETA for this task. Received: "
            f"partition={partition}"
        )
    alpha, beta = arguments
    return alpha, beta


def generate(partition: str, clients: int, seed: int) -> FederatedData:
    """Return federated data for 'synthetic:ALPHA,BETA'; see `parse`."""
    alpha, beta = parse(partition)

    def examples(client: int, held_out: bool = False) -> Examples:
        x, y, size = create_client(alpha, beta, seed, client)
        return (x[size:], y[size:]) if held_out else (x[:size], y[:size])

    return federated(
        examples,
        lambda client: size(seed, client) * 4 // 5,
        clients,
        lambda client: examples(client, held_out=True),
        _CLASSES,
        f"generated: Synthetic({alpha:g}, {beta:g})",
    )


def federated(
    train: Callable[[int], Examples],
    size: Callable[[int], int],
    clients: int,
    test: Callable[[int], Examples],
    num_classes: int,
    description: str,
) -> FederatedData:
    """Return federated data of generated clients, tested on examples of the first 100 of them.

    Of a client's number, `train` and `test` return its examples and `size` how many it trains with.
    """
    tested = [test(client) for client in range(min(clients, _TEST_CLIENTS))]
    test_x, test_y = (np.concatenate(part) for part in zip(*tested))
    return FederatedData(
        train, size, clients, (test_x, test_y), num_classes, description, real=True
    )


def as_float(x: Tensor) -> Tensor:
    """Return the features as the model takes them."""
    import tensorflow as tf

    return tf.cast(x, tf.float32)


DEMO = Settings(
    model="softmax",
    partition="synthetic:1,1",
    clients=30,
    clients_per_round=10,
    rounds=40,
    local_epochs=1,
    batch_size=10,
    learning_rate="0.01",
)

TASK = Task(
    name="synthetic",
    description=(
        "Synthetic(alpha, beta) of FedProx, 60 features, 10 classes; generated, any number of "
        "clients"
    ),
    num_classes=_CLASSES,
    input_shape=(_FEATURES,),
    x_dtype="float32",
    loss="categorical",
    preprocess=as_float,
    generate=generate,
    demo=DEMO,
    papers={
        "fedprox": replace(
            DEMO,
            rounds=200,
            local_epochs=20,
            source=(
                "FedProx's public code for Synthetic(alpha, beta): 30 clients, 10 a round, 200 "
                "rounds of 20 epochs, batch 10, rate 0.01, logistic regression. The paper tries "
                "(0,0), (0.5,0.5) and (1,1)."
            ),
        ),
    },
    default_paper="fedprox",
)
