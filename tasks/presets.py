"""Settings that several tasks share: of demos and of papers. A task replaces what differs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .task import Settings

DIGITS_DEMO = Settings(
    model="mlp_200",
    partition="iid",
    clients=50,
    clients_per_round=10,
    rounds=40,
    local_epochs=1,
    batch_size=20,
    learning_rate="0.1",
    momentum=0.5,
    target_accuracy=0.9,
)

COLOUR_DEMO = Settings(
    model="fedpmt_cnn_cifar10",
    partition="iid",
    clients=16,
    clients_per_round=4,
    rounds=30,
    local_steps=10,
    batch_size=32,
    learning_rate="0.05,24:0.01",
    momentum=0.9,
    weight_decay=1e-4,
    target_accuracy=0.6,
    eval_every=2,
)

EMBRACINGFL = Settings(
    model="resnet20",
    partition="dirichlet:0.1",
    clients=128,
    clients_per_round=32,
    rounds=1000,
    local_steps=10,
    batch_size=32,
    learning_rate="0.4,800:0.04,900:0.004",
    momentum=0.9,
    weight_decay=1e-4,
    tiers="strong:16,moderate:16,weak:96",
    eval_every=10,
)

# Table 3, of the same authors as EmbracingFL; and table 1, in which all clients are active.
PARTIAL_AVERAGING = replace(EMBRACINGFL, tiers="")
PARTIAL_AVERAGING_IID = replace(
    PARTIAL_AVERAGING, partition="iid", clients_per_round=128, local_steps=4
)

FEDUMF = Settings(
    model="resnet18",
    partition="classes:2",
    clients=100,
    clients_per_round=10,
    rounds=300,
    local_epochs=1,
    batch_size=50,
    learning_rate="0.05",
    momentum=0.5,
    weight_decay=5e-4,
    eval_every=5,
)

_FEDUMF_APPENDIX = Settings(
    model="two_conv_cnn",
    partition="dirichlet_per_client:0.6",
    clients=100,
    clients_per_round=15,
    rounds=300,
    local_epochs=1,
    batch_size=50,
    learning_rate="0.1*0.998",
    weight_decay_on="all",
    eval_every=5,
)

_FEDDSE = Settings(
    model="preact_resnet18",
    partition="classes:2",
    clients=100,
    clients_per_round=10,
    rounds=2500,
    local_epochs=2,
    batch_size=16,
    learning_rate="0.001",
    momentum=0.9,
    weight_decay=5e-4,
    weight_decay_on="all",
    capacities="feddse",
    eval_every=25,
)

# What papers leave open for both CIFARs.
CHANNELS = "channels (64, FedDC's), "
DEPTH = "Depth of the network stated only for its memory (18)."


def fedumf_appendix(data: str = "", not_stated: str = "", **changes: Any) -> Settings:
    """Return FedUMF's settings of appendix A, with changes of those of CIFAR-10.

    `source` says what the data are and what the paper leaves open for this task.
    """
    source = (
        f"FedUMF, appendix A, tables A1 and A2 (non-IID, 15 %){data}. Not stated: {not_stated}"
        "Dirichlet by client or by class (by client, as FedDC), whether its one local round is an "
        "epoch (so here), rounds (300), momentum, clipping and weight decay (none here; the "
        "tables' recipes clip and decay as FedDC's code does)."
    )
    return replace(_FEDUMF_APPENDIX, source=source, **changes)


def feddse(data: str, not_stated: str, **changes: Any) -> Settings:
    """Return FedDSE's settings of high heterogeneity; the arguments are as above."""
    source = (
        f"FedDSE, section 7 and appendix D, table 3 (high heterogeneity, {data} a client). "
        f"{not_stated} Its crops (`augment`) are off unless asked for, and so is its static "
        "normalisation for algorithms without sub-models. Weight decay acts as in HeteroFL's code, "
        "whose set-up the paper follows."
    )
    return replace(_FEDDSE, source=source, **changes)
