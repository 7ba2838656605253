"""A tiny data set in the format of tensorflow-datasets."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

import tasks


def prepare(
    folder: pathlib.Path, data: str, version: str, splits: dict[str, slice]
) -> tuple[np.ndarray, np.ndarray]:
    """Writes a tiny set in the format of tfds; returns all of its images and labels."""
    import tensorflow_datasets as tfds

    shape = tasks.TASKS[data.partition("_")[0]].input_shape
    count = max(part.stop for part in splits.values())
    x = np.random.default_rng(0).integers(0, 256, (count, *shape)).astype(np.uint8)
    y = np.arange(count) % 10
    features = tfds.features.FeaturesDict(
        {
            "image": tfds.features.Image(shape=shape),
            "label": tfds.features.ClassLabel(num_classes=10),
        }
    )
    target = folder / data / version
    target.mkdir(parents=True)
    written = [
        _write_split(target, data, name, features, x[part], y[part])
        for name, part in splits.items()
    ]
    tfds.folder_dataset.write_metadata(
        data_dir=str(target), features=features, split_infos=written, check_data=False
    )
    return x, y


def _write_split(
    target: pathlib.Path, data: str, name: str, features: Any, x: np.ndarray, y: np.ndarray
) -> Any:
    import tensorflow as tf
    import tensorflow_datasets as tfds

    path = target / f"{data}-{name}.tfrecord-00000-of-00001"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for image, label in zip(x, y):
            example = features.encode_example({"image": image, "label": int(label)})
            writer.write(features.serialize_example(example))
    template = tfds.core.ShardedFileTemplate(
        data_dir=str(target), dataset_name=data, split=name, filetype_suffix="tfrecord"
    )
    return tfds.core.SplitInfo(
        name=name, shard_lengths=[len(x)], num_bytes=path.stat().st_size, filename_template=template
    )
