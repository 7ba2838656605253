"""EMNIST digits: 28x28, 10 classes (tfds `emnist/digits`), or scikit-learn's digits.

The papers say "EMNIST" of different sets: FedDSE of one with 10 classes, FedUMF of the letters, of
which FedDC's code takes the first ten. The digits stand for both here. tfds stores rows and columns
exchanged; they are put right.
"""

from __future__ import annotations

from tasks import embedded, images, real
from tasks.task import Settings, Task

_URL = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"

TASK = Task(
    name="emnist",
    description="EMNIST digits, 28x28 handwritten digits, 10 classes",
    num_classes=10,
    input_shape=(28, 28, 1),
    loss="categorical",
    preprocess=images.standardise((0.1736,), (0.3317,)),
    augment=images.random_crop,
    tfds_name="emnist/digits",
    load_embedded=embedded.digits,
    load_real=real.image_loader("emnist/digits", _URL, transpose=True),
    is_prepared=real.prepared_check("emnist/digits"),
    demo=Settings(
        model="mlp_200",
        partition="dirichlet_per_client:0.6",
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
        "fedumf_appendix": Settings(
            model="mlp_200",
            partition="dirichlet_per_client:0.6",
            clients=100,
            clients_per_round=15,
            rounds=300,
            local_epochs=1,
            batch_size=50,
            learning_rate="0.1*0.998",
            weight_decay_on="all",
            target_accuracy=0.91,
            eval_every=5,
            source=(
                "FedUMF, appendix A, tables A1 and A2 (non-IID, 15 %); its data are EMNIST "
                "letters. Not stated: how many of the letters, Dirichlet by client or by class (by "
                "client, as FedDC), whether its one local round is an epoch (so here), rounds "
                "(300), momentum, clipping and weight decay (none here; the tables' recipes clip "
                "and decay as FedDC's code does)."
            ),
        ),
        "feddse": Settings(
            model="four_conv_cnn",
            partition="classes:2,500",
            clients=100,
            clients_per_round=10,
            rounds=1000,
            local_epochs=2,
            batch_size=16,
            learning_rate="0.001",
            momentum=0.9,
            weight_decay=5e-4,
            weight_decay_on="all",
            capacities="feddse",
            eval_every=10,
            source=(
                "FedDSE, section 7 and appendix D, table 3 (high heterogeneity, 2 classes and 500 "
                "examples a client). Not stated: which EMNIST (10 classes). Its crops "
                "(`augment`) are off unless asked for, and so is its static normalisation for "
                "algorithms without sub-models. Weight decay acts as in HeteroFL's code, whose "
                "set-up the paper follows."
            ),
        ),
    },
    default_paper="feddse",
)
