"""CIFAR-10: 32x32 colour photographs, 10 classes (tfds `cifar10`), or generated patterns."""

from __future__ import annotations

import functools
from dataclasses import replace

from . import embedded, images, presets
from .task import Settings

TASK = images.create_task(
    "cifar10",
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    description="CIFAR-10, 32x32 colour photographs, 10 classes",
    num_classes=10,
    input_shape=(32, 32, 3),
    examples=(50_000, 10_000),
    augment=images.crop_and_flip,
    load_embedded=functools.partial(embedded.colour_patterns, num_classes=10),
    demo=replace(presets.COLOUR_DEMO, partition="dirichlet:1", tiers="strong:4,moderate:4,weak:8"),
    papers={
        "embracingfl": replace(
            presets.EMBRACINGFL,
            source=(
                "EmbracingFL, sections 4 and 4.2, appendix 6.1 and 6.2; table 3, case 10. Of table "
                "6, which repeats table 3, appendix 6.4 says that all 128 clients take part."
            ),
        ),
        "fedpmt": Settings(
            model="fedpmt_cnn_cifar10",
            partition="classes:2,500",
            clients=100,
            clients_per_round=10,
            rounds=350,
            local_epochs=1,
            batch_size=20,
            learning_rate="0.05",
            target_accuracy=0.5,
            eval_every=5,
            source=(
                "FedPMT, section V-B, table II and table III (non-IID, 2 classes and 500 examples "
                "a device). Not stated: rounds (350, from table III's time to 50 % at 26.4 s a "
                "round), momentum and weight decay (none here). Its 2 or 5 model widths, in equal "
                "shares of the chosen devices, are no tiers here."
            ),
        ),
        "partial_averaging": replace(
            presets.PARTIAL_AVERAGING,
            learning_rate="0.2~6.1,500:0.02,750:0.002",
            source=(
                "Partial averaging, table 3 (non-IID, alpha 0.1, 25 % active, rate 0.2), "
                "experimental settings and appendix: 10,000 iterations, warm-up over 5 epochs "
                "(here of 12.2 local steps, from 0, its start not being stated). "
                "Interval 10 is the table's; the partial averaging itself has one 10 % longer, 11. "
                "Crops and flips (`augment`), not mentioned but needed for its accuracies, are off "
                "unless asked for; the recipes ask."
            ),
        ),
        "fedumf": replace(
            presets.FEDUMF,
            target_accuracy=0.7,
            source=(
                "FedUMF, section 5.1 and table 4 (non-IID, at most 2 classes, C = 0.1, rate 0.05). "
                "Not stated: the number of clients (100, as in its appendix), whether K = 1 is an "
                "epoch or a step (an epoch here)."
            ),
        ),
        "fedumf_appendix": presets.fedumf_appendix(
            not_stated=presets.CHANNELS, target_accuracy=0.7
        ),
        "feddse": presets.feddse("2 classes", presets.DEPTH),
    },
    default_paper="embracingfl",
)
