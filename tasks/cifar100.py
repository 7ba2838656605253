"""CIFAR-100: 32x32 colour photographs, 100 classes (tfds `cifar100`), or generated patterns."""

from __future__ import annotations

import functools
from dataclasses import replace

from . import embedded, images, presets

TASK = images.create_task(
    "cifar100",
    "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    description="CIFAR-100, 32x32 colour photographs, 100 classes",
    num_classes=100,
    input_shape=(32, 32, 3),
    examples=(50_000, 10_000),
    metrics=("accuracy", "top5_accuracy"),
    augment=images.crop_and_flip,
    load_embedded=functools.partial(
        embedded.colour_patterns, num_classes=100, train=6000, strength=90.0, places=6, cells=3
    ),
    demo=replace(
        presets.COLOUR_DEMO,
        model="two_conv_cnn",
        rounds=40,
        learning_rate="0.05,32:0.01",
        target_accuracy=0.2,
        eval_every=4,
    ),
    papers={
        "partial_averaging": replace(
            presets.PARTIAL_AVERAGING_IID,
            model="wide_resnet28_10",
            rounds=763,
            learning_rate="1.2~15.25,366:0.12,565:0.012",
            weight_decay=5e-4,
            source=(
                "Partial averaging, table 1 (IID, interval 4), experimental settings and appendix: "
                "250 epochs, decay after 120 and 185, warm-up over 5, here in rounds of 4 steps "
                "(12.2 steps an epoch). Not stated: the warm-up's start (0 here). Crops "
                "and flips (`augment`), not mentioned but needed for its accuracies, are off "
                "unless asked for; the recipes ask."
            ),
        ),
        "fedumf_appendix": presets.fedumf_appendix(
            not_stated=presets.CHANNELS, target_accuracy=0.35
        ),
        "feddse": presets.feddse("5 classes", presets.DEPTH, partition="classes:5"),
    },
    default_paper="fedumf_appendix",
)
