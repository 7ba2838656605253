"""Federated learning where clients train a part of the model, on TensorFlow Federated.

    import tff_partial

    result = tff_partial.run(task="imdb", algo="embracing", rounds=30)
    result = tff_partial.run(model=create, clients=[(x, y), ...], test=(x, y), algo="heterofl")

| name | what it is |
|---|---|
| `run` | A whole run, as `run_experiment.py` does it: settings, a model and data in, results out. |
| `sweep` | Runs over several values of settings, with the best of them. |
| `simulate` | The rounds of a process on clients of your own. |
| `Model`, `ModelSpec` | A model: how a Keras Sequential of blocks is made, its input and loss. |
| `LocalTraining` | How a client trains. |
| `clients` | Clients of your own: arrays, data sets, TFF's `ClientData`, or a function of an id. |
| `Robust`, `Secure`, `Private` | Aggregators, the third argument of `build`. |
| `algorithms` | A module for each algorithm: `algorithms.fedavg.build(model, params)`. |

Importing this package imports neither TensorFlow nor TFF; using these names does.
"""

from __future__ import annotations

import importlib
import os

# TensorFlow uses oneDNN of its own accord only on some Intel processors; on others its
# convolutions are about half as fast without. Read when TensorFlow is imported.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# Its C++ code logs its start-up at length, and Grappler what it does. Errors are exceptions.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

__version__ = "0.1.0"
_PLACES = {
    "run": "experiments.run:run",
    "sweep": "recipes.sweep:sweep",
    "simulate": "experiments.simulation:simulate",
    "Model": "core.model:ModelSpec",
    "ModelSpec": "core.model:ModelSpec",
    "LocalTraining": "core.local_training:LocalTraining",
    "clients": "core.clients:create",
    "Robust": "core.aggregators:Robust",
    "Secure": "core.aggregators:Secure",
    "Private": "core.private_aggregation:Private",
}
__all__ = [*_PLACES, "algorithms"]


def __getattr__(name: str) -> object:
    """Import a public name when it is used."""
    if name == "algorithms":
        return importlib.import_module("tff_partial.algorithms")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(importlib.import_module(f"tff_partial.{module}"), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
