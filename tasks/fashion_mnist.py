"""Fashion-MNIST: 28x28 pictures of clothes (tfds `fashion_mnist`), or scikit-learn's digits."""

from __future__ import annotations

from dataclasses import replace

from . import embedded, images, presets

TASK = images.create_task(
    "fashion_mnist",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-images-idx3-ubyte.gz",
    mean=(0.2860,),
    std=(0.3530,),
    description="Fashion-MNIST, 28x28 pictures of clothes, 10 classes",
    num_classes=10,
    input_shape=(28, 28, 1),
    examples=(60_000, 10_000),
    load_embedded=embedded.digits,
    demo=replace(presets.DIGITS_DEMO, partition="dirichlet:0.5"),
    papers={
        "partial_averaging": replace(
            presets.PARTIAL_AVERAGING_IID,
            model="vgg11",
            rounds=330,
            learning_rate="0.1~18.3,183:0.01,275:0.001",
            source=(
                "Partial averaging, table 1 (IID, interval 4, rate 0.1), experimental settings and "
                "appendix: 90 epochs, decay after 50 and 75, warm-up over 5, here in rounds of 4 "
                "steps (14.6 steps an epoch, of all 60,000 images; the paper says 50,000). Not "
                "stated: the warm-up's start (0 here)."
            ),
        ),
    },
    default_paper="partial_averaging",
)
