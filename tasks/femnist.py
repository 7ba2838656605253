"""FEMNIST: 28x28 characters by writer, 62 classes (TFF's emnist), or scikit-learn's digits.

The real data are `tff.simulation.datasets.emnist.load_data(only_digits=False)`: 3,400 writers, one
database file `emnist_all.sqlite` in the data folder (None: ~/.tff). Its pixels are floats with
paper 1 and ink 0; they are stored as uint8 round(255 * (1 - pixel)), so that paper is 0 as in
MNIST. The test set holds the test examples of all writers. Embedded digits have 10 of the 62
classes.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Optional

import numpy as np

from tff_partial.core.types import Tensor

from . import embedded, images, presets, real
from .task import Arrays, Settings, Task

if TYPE_CHECKING:
    import tensorflow as tf
    from tensorflow_federated.simulation.datasets import ClientData

_URL = "https://storage.googleapis.com/tff-datasets-public/emnist_all.sqlite.lzma"


def is_prepared(data_dir: Optional[str]) -> bool:
    """Return whether the database is there."""
    return _database(data_dir).is_file()


def _database(data_dir: Optional[str]) -> pathlib.Path:
    return pathlib.Path(data_dir or "~/.tff").expanduser() / "emnist_all.sqlite"


def load_real(data_dir: Optional[str]) -> Arrays:
    """Return all writers' characters; raise a DataError if they cannot be read or downloaded."""
    database = _database(data_dir)
    was_there = database.is_file()
    if not was_there:
        real.check_reachable("femnist", _URL)
    try:
        with real.one_line_errors(f"femnist ({database})"):
            import tensorflow_federated as tff

            source = tff.simulation.datasets.emnist
            return assemble(*source.load_data(only_digits=False, cache_dir=str(database.parent)))
    except BaseException:
        # A download that stopped half-way would be taken for the whole database next time.
        if not was_there:
            database.unlink(missing_ok=True)
        raise


def assemble(train: ClientData, test: ClientData) -> Arrays:
    """Return the data set of two `ClientData`s whose clients are writers."""
    train_x, train_y, writers = _read(train)
    test_x, test_y, _ = _read(test)
    description = f"real: Federated EMNIST, {len(train.client_ids):,} writers"
    return Arrays(train_x, train_y, test_x, test_y, description, real=True, writers=writers)


def _read(client_data: ClientData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return images uint8 [n, 28, 28, 1], labels and writers int32 [n]; one graph serves all."""
    import tensorflow as tf

    def read_writer(number: Tensor, name: Tensor) -> tf.data.Dataset:
        batches = client_data.serializable_dataset_fn(name).batch(1024)
        return batches.map(lambda batch: _convert(batch, number))

    names = tf.constant(list(client_data.client_ids))
    writers = tf.data.Dataset.from_tensor_slices((tf.range(len(names)), names))
    parts = zip(*writers.flat_map(read_writer).prefetch(4).as_numpy_iterator())
    images_, labels, numbers = (np.concatenate(part) for part in parts)
    return images_, labels, numbers


def _convert(batch: Mapping[str, Tensor], writer: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    import tensorflow as tf

    ink = tf.cast(tf.round(255.0 * (1.0 - batch["pixels"])), tf.uint8)[..., None]
    labels = tf.cast(tf.reshape(batch["label"], [-1]), tf.int32)
    return ink, labels, tf.fill(tf.shape(labels), writer)


TASK = Task(
    name="femnist",
    description="FEMNIST, 28x28 handwritten characters by writer, 62 classes",
    num_classes=62,
    input_shape=(28, 28, 1),
    loss="categorical",
    metrics=("accuracy", "top5_accuracy"),
    preprocess=images.standardise((0.0,), (1.0,)),
    examples=(671_585, 77_483),
    writers=3400,
    load_embedded=functools.partial(embedded.digits_by_writer, writers=100),
    load_real=load_real,
    is_prepared=is_prepared,
    demo=Settings(
        model="femnist_cnn",
        width=0.25,
        partition="natural:2",
        clients=50,
        clients_per_round=10,
        rounds=30,
        local_steps=10,
        batch_size=16,
        learning_rate="0.04",
        momentum=0.9,
        weight_decay=1e-4,
        tiers="strong:10,moderate:20,weak:20",
        target_accuracy=0.9,
    ),
    papers={
        "embracingfl": replace(
            presets.EMBRACINGFL,
            model="femnist_cnn",
            partition="natural:2",
            rounds=200,
            learning_rate="0.04",
            source=(
                "EmbracingFL, sections 4 and 4.2, appendix 6.1 and 6.2; table 4, case 10; two "
                "writers a client."
            ),
        ),
        "partial_averaging": replace(
            presets.PARTIAL_AVERAGING,
            model="femnist_cnn",
            partition="natural:3",
            rounds=500,
            local_steps=4,
            learning_rate="0.05~24.6",
            weight_decay=0.0,
            source=(
                "Partial averaging, table 3 (25 % active, rate 0.05), experimental settings and "
                "appendix: 2,000 iterations, a random tenth of the samples, for which three "
                "writers a worker stand here; warm-up over 5 epochs (here of 19.7 local steps, "
                "from 0, its start not being stated). Interval 4 is the table's; the "
                "partial averaging itself has one 10 % longer. Not stated: writers a worker, "
                "decay, weight decay (none here)."
            ),
        ),
    },
    default_paper="embracingfl",
)
