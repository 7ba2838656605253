"""MNIST: 28x28 handwritten digits (tfds `mnist`), or scikit-learn's digits scaled to 28x28."""

from __future__ import annotations

from dataclasses import replace

from . import embedded, images, presets
from .task import Settings


def _fedpmt(model: str, network: str) -> Settings:
    return Settings(
        model=model,
        partition="classes:2,300",
        clients=100,
        clients_per_round=8,
        rounds=200,
        local_epochs=1,
        batch_size=12,
        learning_rate="0.01",
        target_accuracy=0.9,
        eval_every=5,
        source=(
            f"FedPMT, section V-B and table II ({network}, non-IID, 2 classes and 300 examples a "
            "device), target of V-C. Not stated: rounds (200), momentum and weight decay (none "
            "here). Its 2 or 4 model widths, in equal shares of the chosen devices, are no "
            "tiers here."
        ),
    )


TASK = images.create_task(
    "mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz",
    mean=(0.1307,),
    std=(0.3081,),
    description="MNIST, 28x28 handwritten digits, 10 classes",
    num_classes=10,
    input_shape=(28, 28, 1),
    examples=(60_000, 10_000),
    load_embedded=embedded.digits,
    demo=presets.DIGITS_DEMO,
    papers={
        "fedpmt": _fedpmt("fedpmt_fcnn", "FCNN"),
        "fedpmt_cnn": _fedpmt("fedpmt_cnn_mnist", "CNN"),
        "fedumf": replace(
            presets.FEDUMF,
            model="mlp_200",
            rounds=150,
            target_accuracy=0.96,
            eval_every=1,
            source=(
                "FedUMF, section 5.1 and table 2 (non-IID, at most 2 classes, C = 0.1, rate 0.05). "
                "Not stated: the number of clients (100, as in its appendix), which of the two "
                "MNIST networks of McMahan et al. (the one with two hidden layers), whether K = 1 "
                "is an epoch or a step (an epoch here)."
            ),
        ),
        "fedumf_appendix": presets.fedumf_appendix(
            model="mlp_100", target_accuracy=0.95, eval_every=1
        ),
    },
    default_paper="fedumf",
)
