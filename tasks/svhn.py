"""SVHN: 32x32 photographs of house numbers (tfds `svhn_cropped`), or generated colour patterns.

The real training set is `train` and `extra` together: 73,257 + 531,131 images, 1.9 GB in memory and
twice that while they are read. --train_examples takes a random part.
"""

from __future__ import annotations

from tasks import embedded, images, real
from tasks.task import Arrays, Settings, Task

_URL = "http://ufldl.stanford.edu/housenumbers/train_32x32.mat"


def load_embedded(seed: int) -> Arrays:
    """Generated images of 10 classes."""
    return embedded.colour_patterns(seed, num_classes=10)


TASK = Task(
    name="svhn",
    description="SVHN, 32x32 photographs of house numbers, 10 classes, with the extra images",
    num_classes=10,
    input_shape=(32, 32, 3),
    loss="categorical",
    preprocess=images.standardise((0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)),
    augment=images.random_crop,
    tfds_name="svhn_cropped",
    load_embedded=load_embedded,
    load_real=real.image_loader("svhn_cropped", _URL, train="train+extra"),
    is_prepared=real.prepared_check("svhn_cropped"),
    demo=Settings(
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
    ),
    papers={
        "partial_averaging": Settings(
            model="wide_resnet16_8",
            partition="iid",
            clients=128,
            clients_per_round=128,
            rounds=2951,
            local_steps=4,
            batch_size=64,
            learning_rate="0.2~92.2,1476:0.02,2213:0.002",
            momentum=0.9,
            weight_decay=1e-4,
            eval_every=10,
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
