"""Real data through tensorflow-datasets: finding, fetching and reading them quickly."""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Callable, Optional

import numpy as np

from tff_partial.core.types import Tensor

from .task import Arrays, DataError

if TYPE_CHECKING:
    from tensorflow_datasets.core import DatasetBuilder

_PROBE_SECONDS = 10


def image_loader(
    name: str, url: str, transpose: bool = False, train: str = "train"
) -> Callable[[Optional[str]], Arrays]:
    """Return a `Task.load_real` for the images and labels of a tfds data set.

    Args:
      name: Name in tensorflow-datasets, with its configuration where it has several.
      url: What tensorflow-datasets downloads; asked first, because its own retries take minutes
        without a network.
      transpose: Whether rows and columns are stored in the other order.
      train: The splits of the training set, such as 'train+extra'.
    """

    def load(data_dir: Optional[str]) -> Arrays:
        builder = open_builder(name, url, data_dir)
        with one_line_errors(name):
            x, y = _read_images(builder, train)
            test_x, test_y = _read_images(builder, "test")
        if transpose:
            x, test_x = x.swapaxes(1, 2), test_x.swapaxes(1, 2)
        description = f"real: {name} {builder.version}" + (f", {train}" if "+" in train else "")
        return Arrays(x, y, test_x, test_y, description=description, real=True)

    return load


def prepared_check(name: str) -> Callable[[Optional[str]], bool]:
    """Return a `Task.is_prepared` for a tfds data set."""
    return lambda data_dir: find_prepared(name, data_dir) is not None


def find_prepared(name: str, data_dir: Optional[str]) -> Optional[pathlib.Path]:
    """Return the folder of the newest version, <data_dir>/<name>/<version>, or None."""
    folder = folder_of(data_dir) / name
    found = [path.parent for path in folder.glob("*/dataset_info.json") if _version(path.parent)]
    return max(found, key=_version) if found else None


def folder_of(data_dir: Optional[str]) -> pathlib.Path:
    """Return the data folder: the one given, or the default of tensorflow-datasets."""
    default = os.environ.get("TFDS_DATA_DIR") or os.path.join("~", "tensorflow_datasets")
    return pathlib.Path(data_dir or default).expanduser()


def _version(folder: pathlib.Path) -> tuple[int, ...]:
    parts = folder.name.split(".")
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else ()


def open_builder(name: str, url: str, data_dir: Optional[str]) -> DatasetBuilder:
    """Return the tfds builder of a data set, downloaded and prepared if it is not there yet.

    Raises:
      DataError: when that is not possible.
    """
    path = find_prepared(name, data_dir)
    if path is None:
        check_reachable(name, url)
    with one_line_errors(name):
        import tensorflow_datasets as tfds

        if path is not None:
            return tfds.builder_from_directory(str(path))
        builder = tfds.builder(name, data_dir=str(folder_of(data_dir)))
        builder.download_and_prepare()
        return builder


def check_reachable(name: str, url: str) -> None:
    """Raise DataError when the host of a download does not answer."""
    try:
        request = urllib.request.Request(url, method="HEAD")
        urllib.request.urlopen(request, timeout=_PROBE_SECONDS).close()
    except urllib.error.HTTPError:
        return  # It answered; the download itself may know better how to ask.
    except OSError as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLError):
            return  # It answered; the download uses certificates of its own.
        raise DataError(
            f"{name} must be prepared in the data folder or be downloadable, and {url} does not "
            f"answer ({reason}): pass --data_dir=<folder with {name}> or --data=embedded"
        ) from None


@contextlib.contextmanager
def one_line_errors(name: str) -> Iterator[None]:
    """Turn whatever goes wrong while reading or downloading into a DataError of one line."""
    retries = logging.getLogger("urllib3.connectionpool")
    level = retries.level
    retries.setLevel(logging.ERROR)
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        raise DataError(
            f"{name} could not be read or downloaded: {type(error).__name__}: {lines[0][:200]}"
        ) from error
    finally:
        retries.setLevel(level)


def _read_images(builder: DatasetBuilder, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return images uint8 [n, h, w, c], decoded a thousand at a time, and labels int32 [n]."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    shape = builder.info.features["image"].shape
    spec = tf.TensorSpec(shape, tf.uint8)

    def decode(batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        images = tf.map_fn(
            lambda png: tf.ensure_shape(tf.io.decode_png(png, shape[-1]), shape),
            batch["image"],
            fn_output_signature=spec,
        )
        return images, tf.cast(batch["label"], tf.int32)

    dataset = builder.as_dataset(split=split, decoders={"image": tfds.decode.SkipDecoding()})
    dataset = dataset.batch(1000).map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    images, labels = zip(*dataset.as_numpy_iterator())
    return np.concatenate(images), np.concatenate(labels)


def read_texts(builder: DatasetBuilder, split: str) -> tuple[Tensor, np.ndarray]:
    """Return texts, a string tensor [n], and labels int32 [n]."""
    everything = builder.as_dataset(split=split, batch_size=-1)
    return everything["text"], everything["label"].numpy().astype(np.int32)
