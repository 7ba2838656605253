"""Fashion-MNIST: 28x28 pictures of clothes (tfds `fashion_mnist`), or scikit-learn's digits."""

from __future__ import annotations

from tasks import embedded, images, real
from tasks.task import Settings, Task

_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-images-idx3-ubyte.gz"

TASK = Task(
    name="fashion_mnist",
    description="Fashion-MNIST, 28x28 pictures of clothes, 10 classes",
    num_classes=10,
    input_shape=(28, 28, 1),
    loss="categorical",
    preprocess=images.standardise((0.2860,), (0.3530,)),
    tfds_name="fashion_mnist",
    load_embedded=embedded.digits,
    load_real=real.image_loader("fashion_mnist", _URL),
    is_prepared=real.prepared_check("fashion_mnist"),
    demo=Settings(
        model="mlp_200",
        partition="dirichlet:0.5",
        clients=50,
        clients_per_round=10,
        rounds=40,
        local_epochs=1,
        batch_size=20,
        learning_rate="0.1",
        momentum=0.5,
        target_accuracy=0.9,
    ),
    papers={
        "partial_averaging": Settings(
            model="vgg11",
            partition="iid",
            clients=128,
            clients_per_round=128,
            rounds=330,
            local_steps=4,
            batch_size=32,
            learning_rate="0.1~18.3,183:0.01,275:0.001",
            momentum=0.9,
            weight_decay=1e-4,
            eval_every=10,
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
