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

from typing import Any, NamedTuple

import numpy as np

from tasks import partition as partition_lib
from tasks.federated import FederatedData
from tasks.task import Settings, Task

_FEATURES, _CLASSES = 60, 10
_MAX_SIZE, _TEST_CLIENTS = 1000, 100


class Client(NamedTuple):
    """A client: x float32 [n, 60], y int32 [n]; those from `train_size` on are held out."""

    x: np.ndarray
    y: np.ndarray
    train_size: int


def size(seed: int, client: int) -> int:
    """Examples of a client, held-out ones included."""
    return _size(np.random.default_rng([seed, client]))


def _size(rng: np.random.Generator) -> int:
    return int(min(rng.lognormal(4.0, 2.0) + 50, _MAX_SIZE))


def create_client(alpha: float, beta: float, seed: int, client: int) -> Client:
    """Client number `client`: a pure function of the arguments."""
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
    """(alpha, beta) of 'synthetic:ALPHA,BETA'.

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
    """Federated data for 'synthetic:ALPHA,BETA'.

    Raises:
      ValueError: for another partition.
    """
    alpha, beta = parse(partition)

    def client_data(client: int) -> tuple[np.ndarray, np.ndarray]:
        x, y, train_size = create_client(alpha, beta, seed, client)
        return x[:train_size], y[:train_size]

    return FederatedData(
        client_data,
        lambda client: size(seed, client) * 4 // 5,
        clients,
        _test_data(alpha, beta, seed, min(clients, _TEST_CLIENTS)),
        _CLASSES,
        f"generated: Synthetic({alpha:g}, {beta:g})",
        real=True,
    )


def _test_data(alpha: float, beta: float, seed: int, clients: int) -> tuple[np.ndarray, np.ndarray]:
    everyone = [create_client(alpha, beta, seed, client) for client in range(clients)]
    x = np.concatenate([client.x[client.train_size :] for client in everyone])
    return x, np.concatenate([client.y[client.train_size :] for client in everyone])


def as_float(x: Any) -> Any:
    """The features as the model takes them."""
    import tensorflow as tf

    return tf.cast(x, tf.float32)


TASK = Task(
    name="synthetic",
    description=(
        "Synthetic(alpha, beta) of FedProx, 60 features, 10 classes; generated, any number of "
        "clients"
    ),
    num_classes=_CLASSES,
    input_shape=(_FEATURES,),
    loss="categorical",
    preprocess=as_float,
    generate=generate,
    demo=Settings(
        model="softmax",
        partition="synthetic:1,1",
        clients=30,
        clients_per_round=10,
        rounds=40,
        local_epochs=1,
        batch_size=10,
        learning_rate="0.01",
    ),
    papers={
        "fedprox": Settings(
            model="softmax",
            partition="synthetic:1,1",
            clients=30,
            clients_per_round=10,
            rounds=200,
            local_epochs=20,
            batch_size=10,
            learning_rate="0.01",
            source=(
                "FedProx's public code for Synthetic(alpha, beta): 30 clients, 10 a round, 200 "
                "rounds of 20 epochs, batch 10, rate 0.01, logistic regression. The paper tries "
                "(0,0), (0.5,0.5) and (1,1)."
            ),
        ),
    },
    default_paper="fedprox",
)
