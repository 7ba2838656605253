"""The algorithms by name: one line each. Flags, the README's table and the tests read it."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

from tff_partial.algorithms import (
    channel,
    embracing,
    fedavg,
    feddc,
    feddropout,
    feddse,
    feddyn,
    fedpmt,
    fedprox,
    fedrolex,
    fedumf,
    fedumf_feddc,
    fjord,
    heterofl,
    partial_averaging,
    periodic_averaging,
    prefix,
    scaffold,
    vrl_sgd,
    width_reduction,
)
from tff_partial.processes import submodel


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """An entry of the registry.

    Attributes:
      build: (ModelSpec, Params) -> process.
      cost: (ModelSpec, Params, tier's name) -> what a round costs a client, `costs.ClientCost`.
      params: The frozen dataclass of its hyperparameters; its field `local` is LocalTraining.
      title: What it is, in a line.
      paper: Whose hyperparameters `--preset=paper` takes, a key of `Task.papers`; '' for the
        task's default.
      has_tiers: Whether clients of different tiers are treated differently.
      is_stateful: Whether clients keep something between rounds; `build` returns a
        `StatefulProcess` then, else a `tff.learning.templates.LearningProcess`.
      keeps_models: Whether it is the local models that they keep, being active for some rounds.
      has_rates: Whether tiers are rates of the model's width, which may be drawn every round.
      like_heterofl: Whether HeteroFL's static batch normalisation and clipping are its default.
    """

    build: Callable[[Any, Any], Any]
    cost: Callable[[Any, Any, str], Any]
    params: type
    title: str
    paper: str = ""
    has_tiers: bool = False
    is_stateful: bool = False
    keeps_models: bool = False
    has_rates: bool = False
    like_heterofl: bool = False


def _entry(module: Any, title: str, paper: str = "") -> Algorithm:
    fields = {field.name for field in dataclasses.fields(module.Params)}
    return Algorithm(
        module.build,
        module.cost,
        module.Params,
        title,
        paper,
        has_tiers="tiers" in fields,
        is_stateful="population" in fields,
        keeps_models="active" in fields,
        has_rates=issubclass(module.Params, submodel.SubmodelParams),
        like_heterofl=issubclass(module.Params, submodel.HeteroParams),
    )


ALGORITHMS: dict[str, Algorithm] = {
    "fedavg": _entry(fedavg, "every client trains the whole model"),
    "embracing": _entry(
        embracing, "weak clients train output-side layers on recorded activations", "embracingfl"
    ),
    "fedpmt": _entry(fedpmt, "back-propagation stops early", "fedpmt"),
    "prefix": _entry(prefix, "weak clients train input-side layers (ablation)", "embracingfl"),
    "channel": _entry(channel, "weak clients share half of the channels (ablation)", "embracingfl"),
    "fedumf": _entry(fedumf, "clients fuse the stale update that they could not upload", "fedumf"),
    "fedprox": _entry(fedprox, "clients are held back to the server's model", "fedumf_appendix"),
    "scaffold": _entry(scaffold, "control variates take out the clients' drift", "fedumf_appendix"),
    "feddyn": _entry(feddyn, "each client's objective is corrected by its past", "fedumf_appendix"),
    "feddc": _entry(feddc, "clients learn their drift and correct it", "fedumf_appendix"),
    "partial_averaging": _entry(
        partial_averaging,
        "another subset of the parameters is averaged each step",
        "partial_averaging",
    ),
    "periodic_averaging": _entry(
        periodic_averaging, "local models are averaged every tau steps", "partial_averaging"
    ),
    "vrl_sgd": _entry(vrl_sgd, "periodic averaging, variance reduced", "partial_averaging"),
    "feddse": _entry(feddse, "clients train the neurons that their data activate", "feddse"),
    "heterofl": _entry(heterofl, "clients train the first channels of every layer", "feddse"),
    "fedrolex": _entry(fedrolex, "clients train a window of channels that rolls on", "feddse"),
    "feddropout": _entry(feddropout, "clients train random channels of every layer", "feddse"),
    "fjord": _entry(fjord, "ordered dropout: the width is drawn every local step", "feddse"),
    "width_reduction": _entry(
        width_reduction, "HeteroFL's plain form, EmbracingFL's comparison", "embracingfl"
    ),
    "fedumf_feddc": _entry(fedumf_feddc, "FedUMF and FedDC combined", "fedumf_appendix"),
}
