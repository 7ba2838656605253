"""MNIST: 28x28 handwritten digits (tfds `mnist`), or scikit-learn's digits scaled to 28x28."""

from __future__ import annotations

from tasks import embedded, images, real
from tasks.task import Settings, Task

_URL = "https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz"

TASK = Task(
    name="mnist",
    description="MNIST, 28x28 handwritten digits, 10 classes",
    num_classes=10,
    input_shape=(28, 28, 1),
    loss="categorical",
    preprocess=images.standardise((0.1307,), (0.3081,)),
    tfds_name="mnist",
    load_embedded=embedded.digits,
    load_real=real.image_loader("mnist", _URL),
    is_prepared=real.prepared_check("mnist"),
    demo=Settings(
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
    ),
    papers={
        "fedpmt": Settings(
            model="fedpmt_fcnn",
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
                "FedPMT, section V-B and table II (FCNN, non-IID, 2 classes and 300 examples a "
                "device), target of V-C. Not stated: rounds (200), momentum and weight decay (none "
                "here). Its 2 or 4 model widths, in equal shares of the chosen devices, are no "
                "tiers here."
            ),
        ),
        "fedpmt_cnn": Settings(
            model="fedpmt_cnn_mnist",
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
                "FedPMT, section V-B and table II (CNN, non-IID, 2 classes and 300 examples a "
                "device), target of V-C. Not stated: rounds (200), momentum and weight decay (none "
                "here). Its 2 or 4 model widths, in equal shares of the chosen devices, are no "
                "tiers here."
            ),
        ),
        "fedumf": Settings(
            model="mlp_200",
            partition="classes:2",
            clients=100,
            clients_per_round=10,
            rounds=150,
            local_epochs=1,
            batch_size=50,
            learning_rate="0.05",
            momentum=0.5,
            weight_decay=5e-4,
            target_accuracy=0.96,
            source=(
                "FedUMF, section 5.1 and table 2 (non-IID, at most 2 classes, C = 0.1, rate 0.05). "
                "Not stated: the number of clients (100, as in its appendix), which of the two "
                "MNIST networks of McMahan et al. (the one with two hidden layers), whether K = 1 "
                "is an epoch or a step (an epoch here)."
            ),
        ),
        "fedumf_appendix": Settings(
            model="mlp_100",
            partition="dirichlet_per_client:0.6",
            clients=100,
            clients_per_round=15,
            rounds=300,
            local_epochs=1,
            batch_size=50,
            learning_rate="0.1*0.998",
            weight_decay_on="all",
            target_accuracy=0.95,
            source=(
                "FedUMF, appendix A, tables A1 and A2 (non-IID, 15 %). Not stated: Dirichlet by "
                "client or by class (by client, as FedDC), whether its one local round is an epoch "
                "(so here), rounds (300), momentum, clipping and weight decay (none here; the "
                "tables' recipes clip and decay as FedDC's code does)."
            ),
        ),
    },
    default_paper="fedumf",
)
