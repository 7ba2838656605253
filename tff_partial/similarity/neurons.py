"""How strongly clients' examples activate each neuron: figures 2, 6, 7 and 8 of FedDSE.

Wang et al., FedDSE: distribution-aware sub-model extraction for federated learning over
resource-constrained devices, 2024, section 4.3, appendices A.1 and A.2:

    w        <- FedAvg over the clients, all in every round
    h_{c,l,i} <- mean over 256 examples of client c of the output of neuron i of layer l

and the same over as many examples of all clients alike. A neuron of a convolution is a channel, its
output the mean over positions. For figure 6 the activations of some examples of each client in the
last hidden layer are projected on the two directions along which they vary most.

The paper leaves open how the network was trained, and what figure 6 shows beside colours of
clients. The folder is that of a run, with activations.csv, examples.csv and the pictures as SVG.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Optional

import numpy as np

from tff_partial.core.fields import Value
from tff_partial.core.lazy import tf
from tff_partial.core.model import ModelSpec
from tff_partial.core.types import Array, Tensor
from tff_partial.experiments import config
from tff_partial.experiments import run as runs
from tff_partial.experiments.participation import ClientArrays
from tff_partial.experiments.run import say
from tff_partial.results import neurons, pictures, text_files
from tff_partial.system import files

# Where the user says nothing else.
DEMO: Mapping[str, Value] = {
    "task": "mnist",
    "model": "mlp_50_24",
    "partition": "classes:2",
    "clients": 5,
    "rounds": 50,
    "local_steps": 20,
    "batch_size": 32,
    "learning_rate": "0.1",
}
# The settings among these.
CHOSEN = tuple(name for name in DEMO if name != "task")
_PROJECTED = 60  # examples of a client in figure 6
_SEED = 0xAC7


@dataclasses.dataclass(frozen=True)
class Measuring:
    """How activations are measured.

    Attributes:
      examples: Examples of each client.
    """

    examples: int = 256

    def __post_init__(self) -> None:
        if self.examples < 1:
            raise ValueError(f"examples must be positive. Received: examples={self.examples}")


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A run whose activations are to be measured."""

    training: runs.Prepared
    measuring: Measuring

    @property
    def folder(self) -> str:
        return self.training.folder


def prepare(
    measuring: Optional[Measuring] = None,
    data: str = "auto",
    data_dir: Optional[str] = None,
    output_dir: Optional[str] = None,
    **settings: Value,
) -> Prepared:
    """Check the input, load the data and make the results folder, in this order."""
    places = {"data": data, "data_dir": data_dir, "output_dir": output_dir}
    training = runs.prepare(
        **create_settings(**settings), **{k: v for k, v in places.items() if v is not None}
    )
    return Prepared(training, measuring or Measuring())


def create_settings(**settings: Value) -> dict[str, Value]:
    """Return the settings of the run: FedAvg, all clients in every round."""
    given = {name: value for name, value in settings.items() if value is not None}
    base = dict(DEMO)
    if given.get("preset") == "paper":
        base = {"task": "mnist", "paper": "fedumf"}
    chosen = {**base, **given, "algo": "fedavg"}
    clients = chosen.get("clients")
    if clients is None:
        clients = config.create(is_real=False, **chosen).settings.clients
    if int(clients) < 2:
        raise ValueError(f"clients must be at least 2. Received: clients={clients}")
    return {**chosen, "clients_per_round": clients}


def run(prepared: Prepared) -> neurons.Rows:
    """Train, measure and write; return the rows of activations.csv.

    Raises:
      Interrupted: On SIGINT or SIGTERM; the run resumes when restarted with the same folder.
    """
    training = prepared.training
    runs.train(training)
    runs.finish(training)
    weights = runs.Result(training.folder, {}, []).weights
    clients = _examples(training.data, prepared.measuring.examples, training.experiment.seed)
    outputs = _outputs(training.model, weights, {name: x for name, (x, _) in clients.items()})
    rows, examples = _rows(outputs), _projected(outputs, {n: y for n, (_, y) in clients.items()})
    folder = training.folder
    text_files.write_csv(f"{folder}/{neurons.EXAMPLES}", neurons.EXAMPLE_COLUMNS, examples)
    for name, picture in neurons.draw(rows, examples).items():
        files.write(f"{folder}/{name}.svg", pictures.standalone(picture).encode())
    _add_to_summary(folder, rows)
    # The last file: what says that all is there.
    text_files.write_csv(f"{folder}/{neurons.ACTIVATIONS}", neurons.COLUMNS, rows)
    say(f"pictures in {folder}")
    return rows


def _examples(data: ClientArrays, count: int, seed: int) -> dict[str, tuple[Array, Array]]:
    """Return so many examples and labels of each client, and examples of all alike."""
    found = {}
    for client in range(data.num_clients):
        x, y = data.client(client)
        chosen = np.random.default_rng([seed, _SEED, client]).permutation(len(y))[:count]
        found[f"client {client + 1}"] = x[chosen], y[chosen]
    mixed = config.mixed_examples(data, seed, count)
    return {**found, neurons.EVERYBODY: (mixed, np.zeros(len(mixed), np.int32))}


def _outputs(
    spec: ModelSpec, weights: Mapping[str, Array], examples: Mapping[str, Array]
) -> dict[str, dict[str, Array]]:
    """Return block -> client -> the output of each neuron for each example [n, neurons]."""
    model = spec.instantiate()
    variables = [*model.weights.trainable, *model.weights.non_trainable]
    for variable, value in zip(variables, weights.values()):  # in the order of the file
        variable.assign(value)

    @tf.function(input_signature=[tf.TensorSpec([None, *spec.input_shape], spec.input_dtype)])
    def activations(x: Tensor) -> list[Tensor]:
        x, outputs = model.preprocess(x), []
        for block in model.blocks:
            x = model.forward(x, training=False, blocks=[block])
            outputs.append(tf.reduce_mean(x, axis=[*range(1, len(x.shape) - 1)]))
        return outputs

    found: dict[str, dict[str, Array]] = {block.name: {} for block in model.blocks}
    for client, x in examples.items():
        for block, output in zip(model.blocks, activations(tf.constant(x))):
            found[block.name][client] = output.numpy()
    return found


def _rows(outputs: Mapping[str, Mapping[str, Array]]) -> list[dict[str, object]]:
    return [
        dict(zip(neurons.COLUMNS, (client, layer, name, neuron, round(float(value), 6))))
        for layer, (name, clients) in enumerate(outputs.items(), start=1)
        for client, each in clients.items()
        for neuron, value in enumerate(each.mean(axis=0), start=1)
    ]


def _projected(
    outputs: Mapping[str, Mapping[str, Array]], labels: Mapping[str, Array]
) -> list[dict[str, object]]:
    """Return the first examples of each client along two principal components."""
    hidden = [*outputs.values()][-2:][0]
    clients = [client for client in hidden if client != neurons.EVERYBODY]
    chosen = {client: hidden[client][:_PROJECTED] for client in clients}
    every = np.concatenate([*chosen.values()])
    _, _, directions = np.linalg.svd(every - every.mean(axis=0), full_matrices=False)
    return [
        dict(
            zip(
                neurons.EXAMPLE_COLUMNS,
                (client, int(label), *_two(example - every.mean(axis=0), directions)),
            )
        )
        for client in clients
        for label, example in zip(labels[client], chosen[client])
    ]


def _two(example: Array, directions: Array) -> Sequence[float]:
    """Return the first two coordinates, 0 where there is one direction only."""
    values = [*(directions[:2] @ example), 0.0]
    return [round(float(value), 4) for value in values[:2]]


def _add_to_summary(folder: str, rows: neurons.Rows) -> None:
    """Add the mean share of neurons in common, by layer, to summary.json."""
    path = os.path.join(folder, "summary.json")
    shares = neurons.in_common(rows)
    common = {f"common_{i}": float(np.mean(s)) for i, s in enumerate(shares.values(), 1) if s}
    text_files.write_json(path, {**text_files.read_json(path), **common})
