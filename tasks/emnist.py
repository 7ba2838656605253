"""EMNIST digits: 28x28, 10 classes (tfds `emnist/digits`), or scikit-learn's digits.

The papers say "EMNIST" of different sets: FedDSE of one with 10 classes, FedUMF of the letters, of
which FedDC's code takes the first ten. The digits stand for both here. tfds stores rows and columns
exchanged; they are put right.
"""

from __future__ import annotations

from dataclasses import replace

from . import embedded, images, presets

TASK = images.create_task(
    "emnist",
    "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
    mean=(0.1736,),
    std=(0.3317,),
    tfds_name="emnist/digits",
    transpose=True,
    description="EMNIST digits, 28x28 handwritten digits, 10 classes",
    num_classes=10,
    input_shape=(28, 28, 1),
    examples=(240_000, 40_000),
    augment=images.random_crop,
    load_embedded=embedded.digits,
    demo=replace(presets.DIGITS_DEMO, partition="dirichlet_per_client:0.6"),
    papers={
        "fedumf_appendix": presets.fedumf_appendix(
            "; its data are EMNIST letters",
            "how many of the letters, ",
            model="mlp_200",
            target_accuracy=0.91,
        ),
        "feddse": presets.feddse(
            "2 classes and 500 examples",
            "Not stated: which EMNIST (10 classes).",
            model="four_conv_cnn",
            partition="classes:2,500",
            rounds=1000,
            eval_every=10,
        ),
    },
    default_paper="feddse",
)
