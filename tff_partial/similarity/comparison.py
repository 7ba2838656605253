"""Compares how clients' local models see the same examples, block by block.

For each batch of held-out examples, each client's model gives the output of every block; the SVCCA
of two clients is the mean over the batches (svcca.py). A row of metrics.csv gets the maximum over
all pairs of clients, which is what EmbracingFL's figures show, and the mean.

Batch-norm statistics of synchronised layers are averaged first. Training uses the statistics of its
batches, and a moving average is linear in its inputs, so this equals averaging them at every
synchronisation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import TypeAlias

from tff_partial.core.lazy import tf
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Row, Tensor
from tff_partial.experiments.callbacks import Callback
from tff_partial.experiments.participation import RoundResult
from tff_partial.similarity import svcca
from tff_partial.similarity.tables import CLIENTS, MAXIMUM, MEAN

ClientModel: TypeAlias = Mapping[str, np.ndarray]
"""What a client keeps: flat `parameters` and `statistics`."""


class Comparison(Callback):
    """Compares clients' models on the same examples, in rounds that are evaluated.

    Batches are of held-out examples as clients hold them, [n, ...] each; `synchronised` says which
    batch-norm statistics are (`schemes.Shares`).

    Attributes:
      blocks: The names of the blocks.
    """

    def __init__(
        self,
        spec: ModelSpec,
        batches: Sequence[np.ndarray],
        synchronised: np.ndarray,
        vectors: int = svcca.VECTORS,
    ) -> None:
        self._model = model = spec.instantiate()
        self._batches, self._synchronised, self._vectors = batches, synchronised, vectors
        self.blocks = [block.name for block in model.blocks]

        @tf.function(input_signature=[tf.TensorSpec([None, *spec.input_shape], spec.input_dtype)])
        def activations(x: Tensor) -> list[Tensor]:
            x, outputs = model.preprocess(x), []
            for block in model.blocks:
                x = model.forward(x, training=False, blocks=[block])
                outputs.append(x)
            return outputs

        self._activations = activations

    def on_result(self, round_num: int, result: RoundResult, is_evaluated: bool) -> Row:
        return self.columns(list(result.kept.values())) if is_evaluated else {}

    def columns(self, clients: Sequence[ClientModel]) -> dict[str, float]:
        """Return further columns of metrics.csv.

        For each block the maximum and the mean over pairs of clients, NaN without a pair; and how
        many clients were compared: those whose activations are finite.
        """
        matrices = self.pairs(clients)
        compared = np.isfinite(matrices).any(axis=(0, 2))
        columns: dict[str, float] = {CLIENTS: float(compared.sum())}
        above = np.triu_indices(int(compared.sum()), 1)
        for name, matrix in zip(self.blocks, matrices):
            pairs = matrix[compared][:, compared][above]
            columns[MAXIMUM + name] = float(pairs.max()) if pairs.size else math.nan
            columns[MEAN + name] = float(pairs.mean()) if pairs.size else math.nan
        return columns

    def pairs(self, clients: Sequence[ClientModel]) -> np.ndarray:
        """Return the similarity of every two clients [blocks, clients, clients].

        NaN for a client whose activations are not finite.
        """
        statistics = self._averaged([np.asarray(client["statistics"]) for client in clients])
        models = [(np.asarray(c["parameters"]), s) for c, s in zip(clients, statistics)]
        total = np.zeros((len(self.blocks), len(models), len(models)))
        for batch in self._batches:
            # All clients for one batch at a time: this is what takes memory.
            bases = [self._directions(*model, batch) for model in models]
            finite = np.flatnonzero([bool(each) for each in bases])
            similarities = np.full_like(total, math.nan)
            for matrix, block in zip(similarities, zip(*(bases[i] for i in finite))):
                matrix[np.ix_(finite, finite)] = svcca.pairwise(block)
            total += similarities
        return total / len(self._batches)

    def _averaged(self, statistics: Sequence[np.ndarray]) -> np.ndarray:
        mean = np.mean(statistics, axis=0, dtype=np.float64).astype(np.float32)
        return np.where(self._synchronised, mean, np.stack(statistics))

    def _directions(
        self, parameters: np.ndarray, statistics: np.ndarray, batch: np.ndarray
    ) -> list[np.ndarray]:
        """Return the directions of each block; none if the activations are not finite."""
        self._assign(parameters, statistics)
        outputs = [output.numpy() for output in self._activations(tf.constant(batch))]
        if not all(np.isfinite(output).all() for output in outputs):
            return []
        return [svcca.directions(output, self._vectors) for output in outputs]

    def _assign(self, parameters: np.ndarray, statistics: np.ndarray) -> None:
        for variables, vector in (
            (self._model.trainable, parameters),
            (self._model.statistics, statistics),
        ):
            ends = np.cumsum([math.prod(v.shape) for v in variables]).astype(int)
            for variable, part in zip(variables, np.split(vector, ends)):
                variable.assign(part.reshape(variable.shape))


def draw_batches(x: np.ndarray, count: int, examples: int, seed: int) -> list[np.ndarray]:
    """Draw batches of different held-out examples at random.

    Raises:
      ValueError: If there are not enough.
    """
    if not 1 <= count * examples <= len(x):
        raise ValueError(
            f"batches * examples must be from 1 to {len(x)}, the held-out examples. "
            f"Received: batches={count}, examples={examples}"
        )
    order = np.random.default_rng([seed, 0x5CCA]).permutation(len(x))[: count * examples]
    return list(x[order].reshape(count, examples, *x.shape[1:]))


def check_clients(sizes: Sequence[int]) -> None:
    """Raise a ValueError if a client has no examples.

    Two clients that do not train would be the most similar pair.
    """
    empty = sum(size == 0 for size in sizes)
    if empty:
        raise ValueError(
            "every client must have examples to be compared. "
            f"Received: {empty} of {len(sizes)} clients without"
        )
