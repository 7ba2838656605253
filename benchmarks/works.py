"""The FedAvg rounds that benchmarks time, and a loop without any framework to compare with."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import queue
from typing import Any, Callable, Optional

import numpy as np
import tensorflow as tf

import models
from tff_partial.core import model as model_spec
from tff_partial.core.local_training import LocalTraining


@dataclasses.dataclass(frozen=True)
class Work:
    """Settings of FedAvg on random data: what is timed does not depend on what is learnt."""

    name: str
    model: str
    input_shape: tuple[int, ...]
    num_classes: int
    clients: int
    examples: int
    local: LocalTraining

    def spec(self) -> model_spec.ModelSpec:
        return model_spec.ModelSpec(
            lambda: models.create(self.model, self.input_shape, self.num_classes),
            self.input_shape,
            "uint8",
            preprocess=scale,
        )

    def client_data(self) -> list[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(0)
        shape = (self.examples, *self.input_shape)
        return [
            (
                rng.integers(0, 256, shape).astype(np.uint8),
                rng.integers(0, self.num_classes, self.examples).astype(np.int32),
            )
            for _ in range(self.clients)
        ]


def scale(x: Any) -> Any:
    return tf.cast(x, tf.float32) / 255.0


_SGD = LocalTraining(epochs=1, batch_size=50, learning_rate=0.1)
_MOMENTUM = LocalTraining(steps=10, batch_size=32, learning_rate=0.01, momentum=0.9)
WORKS = {
    "mlp": Work("mlp", "mlp_200", (28, 28, 1), 10, 100, 600, _SGD),
    "femnist_cnn": Work("femnist_cnn", "femnist_cnn", (28, 28, 1), 62, 8, 320, _MOMENTUM),
    "resnet20": Work("resnet20", "resnet20", (32, 32, 3), 10, 8, 320, _MOMENTUM),
    "mlp_10": Work("mlp_10", "mlp_200", (28, 28, 1), 10, 10, 600, _SGD),
}


class _BareClient:
    """A thread's own model and tf.function: assign, loop over batches, return the weights."""

    def __init__(self, work: Work) -> None:
        self.model = models.create(work.model, work.input_shape, work.num_classes)
        self.buffers = [tf.Variable(tf.zeros_like(v)) for v in self.model.trainable_variables]
        self.local = work.local
        self.steps = work.local.steps or work.examples // work.local.batch_size
        self.train = tf.function(self._train)

    def _train(self, weights: Any, x: Any, y: Any) -> Any:
        for variable, value in zip(self.model.variables, weights):
            variable.assign(value)
        for buffer in self.buffers:
            buffer.assign(tf.zeros_like(buffer))
        order = tf.random.shuffle(tf.range(tf.shape(y)[0]))
        size = self.local.batch_size
        for step in tf.range(self.steps):
            indices = order[step * size : (step + 1) * size]
            self._step(scale(tf.gather(x, indices)), tf.gather(y, indices))
        return [v.read_value() for v in self.model.variables]

    def _step(self, x: Any, y: Any) -> None:
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            logits = self.model(x, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
            loss = tf.reduce_mean(losses)
        rate = float(self.local.learning_rate)
        for v, b, g in zip(variables, self.buffers, tape.gradient(loss, variables)):
            if self.local.momentum:
                b.assign(self.local.momentum * b + g)
                v.assign_sub(rate * b)
            else:
                v.assign_sub(rate * g)


def create_bare_round(work: Work, threads: int = 2) -> Callable[[], None]:
    """Return a round of FedAvg by hand: threads with a tf.function each, a mean at the end."""
    clients = [_BareClient(work) for _ in range(threads)]
    data = [(tf.constant(x), tf.constant(y)) for x, y in work.client_data()]
    weights = [v.read_value() for v in clients[0].model.variables]
    for client in clients:
        client.train(weights, *data[0])
    free: queue.Queue[Any] = queue.Queue()
    for client in clients:
        free.put(client)
    pool = concurrent.futures.ThreadPoolExecutor(threads)

    def one(pair: Any) -> Any:
        client = free.get()
        try:
            return client.train(weights, *pair)
        finally:
            free.put(client)

    def run_round() -> None:
        nonlocal weights
        total: Optional[list[np.ndarray]] = None
        for result in pool.map(one, data):
            values = [v.numpy() for v in result]
            total = values if total is None else [a + b for a, b in zip(total, values)]
        assert total is not None
        weights = [tf.constant(v / len(data)) for v in total]

    return run_round
