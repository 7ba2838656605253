"""SVHN: 32x32 photographs of house numbers (tfds `svhn_cropped`), or generated colour patterns.

The real training set is `train` and `extra` together: 73,257 + 531,131 images, 1.9 GB in memory and
twice that while they are read. --train_examples takes a random part.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from . import embedded, images, presets

TASK = images.create_task(
    "svhn",
    "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
    mean=(0.4377, 0.4438, 0.4728),
    std=(0.1980, 0.2010, 0.1970),
    tfds_name="svhn_cropped",
    train="train+extra",
    description="SVHN, 32x32 photographs of house numbers, 10 classes, with the extra images",
    num_classes=10,
    input_shape=(32, 32, 3),
    examples=(604_388, 26_032),
    augment=images.random_crop,
    load_embedded=functools.partial(embedded.colour_patterns, num_classes=10),
    demo=presets.COLOUR_DEMO,
    papers={
        "partial_averaging": replace(
            presets.PARTIAL_AVERAGING_IID,
            model="wide_resnet16_8",
            rounds=2951,
            batch_size=64,
            learning_rate="0.2~92.2,1476:0.02,2213:0.002",
            source=(
                "Partial averaging, table 1 (IID, interval 4), experimental settings and appendix: "
                "160 epochs, decay after 80 and 120, warm-up over 5, here in rounds of 4 steps "
                "(73.8 steps an epoch of 604,388 images). That the 530,000 extra images are used "
                "is not said outright; intervals of 64 steps, 'due to the large number of training "
                "samples', need them. Not stated: the warm-up's start (0 here)."
            ),
        ),
    },
    default_paper="partial_averaging",
)
