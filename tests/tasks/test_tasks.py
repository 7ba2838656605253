"""Tasks: settings, embedded data, real data from a prepared folder, FEMNIST, synthetic, errors."""

from __future__ import annotations

import dataclasses
import pathlib
import socket
import subprocess
import sys
import time
from typing import Any
from unittest import mock

import numpy as np
import pytest

import tasks
from tasks import embedded, femnist, images, imdb, real, synthetic, synthetic_feddc
from tasks.task import Settings, Task

_SETTINGS = Settings(
    model="softmax",
    partition="iid",
    clients=32,
    clients_per_round=8,
    rounds=3,
    local_steps=2,
    batch_size=4,
    learning_rate="0.1",
)
_IMAGE_SHAPES = {
    "cifar10": (32, 32, 3),
    "cifar100": (32, 32, 3),
    "svhn": (32, 32, 3),
    "mnist": (28, 28, 1),
    "fashion_mnist": (28, 28, 1),
    "emnist": (28, 28, 1),
    "femnist": (28, 28, 1),
}


def _load(name: str, **arguments: Any) -> tasks.FederatedData:
    return tasks.load(tasks.TASKS[name], "embedded", **arguments)


def test_importing_tasks_imports_nothing_heavy() -> None:
    code = (
        "import sys, tasks; heavy = {'tensorflow', 'tensorflow_datasets', 'tensorflow_federated', "
        "'sklearn', 'keras', 'scipy'} & set(sys.modules); sys.exit(str(heavy) if heavy else 0)"
    )
    folder = pathlib.Path(tasks.__file__).parent.parent
    subprocess.run([sys.executable, "-c", code], check=True, cwd=folder)


@pytest.mark.parametrize("name", tasks.TASKS)
def test_every_task_is_complete(name: str) -> None:
    task = tasks.TASKS[name]
    assert task.name == name
    assert task.papers[task.default_paper].source
    for paper, settings in task.papers.items():
        assert settings.source, paper
        assert settings.rounds >= 100


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients_per_round": 64}, r"be at most clients \(32\). Received: clients_per_round=64"),
        ({"rounds": -1}, "rounds must be at least 1. Received: rounds=-1"),
        ({"batch_size": 0}, "batch_size must be at least 1. Received: batch_size=0"),
        ({"width": 0.0}, r"width must be in \(0, 1\]. Received: width=0.0"),
        ({"momentum": 1.0}, r"momentum must be in \[0, 1\). Received: momentum=1.0"),
        ({"weight_decay": -1.0}, "weight_decay must not be negative. Received: weight_decay=-1.0"),
        (
            {"weight_decay_on": "biases"},
            "weight_decay_on must be kernels or all. Received: weight_decay_on=biases",
        ),
        ({"target_accuracy": 80.0}, "target_accuracy must be in"),
        ({"local_epochs": 1}, "exactly one .* Received: local_steps=2, local_epochs=1"),
        ({"local_steps": None}, "exactly one .* Received: local_steps=None, local_epochs=None"),
        ({"local_steps": 0}, "must be at least 1. Received: local_steps=0"),
        ({"partition": "half"}, "partition must be one of .* Received: partition=half"),
        ({"learning_rate": "-0.1"}, "learning_rate must read like .* Received: learning_rate=-0.1"),
        ({"learning_rate": "0.1,9:0.2,5:1"}, "rounds rising"),
        ({"learning_rate": "0.1*"}, "learning_rate must read like"),
        ({"tiers": "strong"}, "tiers must be like strong:16"),
        ({"tiers": "strong:16,weak:8"}, r"tiers must add up to clients \(32\)"),
        ({"tiers": "weak:16,weak:16"}, "tiers must be like strong:16"),
    ],
)
def test_settings_are_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        dataclasses.replace(_SETTINGS, **change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rate", ["0.1", "1", "1e-3", ".5", "0.4,800:0.04,900:0.004", "0.1*0.998"])
def test_learning_rates_read(rate: str) -> None:
    assert dataclasses.replace(_SETTINGS, learning_rate=rate).learning_rate == rate


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": "hinge"}, "loss must be one of"),
        ({"loss": "binary"}, "num_classes must be 2 for a binary loss. Received: num_classes=10"),
        ({"default_paper": "none"}, "default_paper must be one of"),
        ({"papers": {"fedpmt": _SETTINGS}, "default_paper": "fedpmt"}, "say where their numbers"),
        ({"input_shape": ()}, "input_shape must have positive sizes"),
        ({"load_real": None}, "mnist must have load_embedded, load_real and is_prepared"),
    ],
)
def test_tasks_are_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(tasks.TASKS["mnist"], **change)


@pytest.mark.parametrize("name", tasks.TASKS)
def test_embedded_data_are_small_labelled_and_repeatable(name: str) -> None:
    data, same = _load(name, seed=3), _load(name, seed=3)
    other = _load(name, seed=4)
    x, y = data.client(0)
    assert data.num_clients == tasks.TASKS[name].demo.clients
    assert len(x) == len(y) == data.client_size(0) > 0
    assert x.dtype == data.x_dtype == data.test_x.dtype
    assert x.shape[1:] == data.input_shape
    assert y.dtype == data.test_y.dtype == np.int32
    assert set(np.unique(data.test_y)) <= set(range(data.num_classes))
    assert np.array_equal(x, same.client(0)[0])
    assert not np.array_equal(data.test_x, other.test_x)
    assert data.real == (tasks.TASKS[name].generate is not None)
    assert data.description.startswith("generated: " if data.real else "embedded: ")


@pytest.mark.parametrize("name", _IMAGE_SHAPES)
def test_embedded_images_have_the_shape_of_the_real_ones(name: str) -> None:
    data = _load(name)
    total = sum(data.client_size(client) for client in range(data.num_clients))
    assert data.input_shape == _IMAGE_SHAPES[name] == tasks.TASKS[name].input_shape
    assert data.x_dtype == np.uint8
    assert total > 3900
    prepared = tasks.TASKS[name].preprocess(data.test_x[:50])
    assert prepared.dtype == "float32"
    assert 0.1 < np.std(prepared) < 3


def test_test_digits_come_from_other_originals() -> None:
    with mock.patch.object(embedded, "_place", lambda digits, shifts: digits):
        arrays = embedded.digits(0)
    train = {image.tobytes() for image in arrays.train_x}
    assert len(train) < len(arrays.train_x) == 3 * 1397
    assert not train & {image.tobytes() for image in arrays.test_x}


def test_digits_by_writer_differ_in_style() -> None:
    arrays = embedded.digits_by_writer(0, writers=20)
    assert arrays.writers is not None
    assert set(arrays.writers) == set(range(20))
    brightest = [arrays.train_x[arrays.writers == writer].max() for writer in range(20)]
    assert np.ptp(brightest) > 60


def test_reviews_are_learnable_but_not_trivial() -> None:
    data = _load("imdb", partition="iid", clients=1)
    x, y = data.client(0)
    counts, test_counts = (
        np.stack([np.bincount(row, minlength=1000)[:1000] for row in tokens])
        for tokens in (x, data.test_x)
    )
    weights = counts[y == 1].sum(axis=0) - counts[y == 0].sum(axis=0)
    weights[0] = 0  # Padding says how long a text is, not what it thinks.
    scores = test_counts @ np.where(np.abs(weights) > 200, np.sign(weights), 0)
    accuracy = np.mean((scores > 0) == data.test_y)
    assert 0.8 < accuracy < 0.99


def test_text_is_right_aligned_and_fitted_on_training_texts() -> None:
    train, test = imdb.vectorise(["b a a<br />a", "b"], ["A, unseen b!", "a b a b b"], length=4)
    assert train.dtype == np.int32
    assert train.tolist() == [[3, 2, 2, 2], [0, 0, 0, 3]]
    assert test.tolist() == [[0, 2, 1, 3], [3, 2, 3, 3]]


def test_an_empty_text_is_padding() -> None:
    train, test = imdb.vectorise(["a"], ["", "a", ""], length=2)
    assert train.tolist() == [[0, 2]]
    assert test.tolist() == [[0, 0], [0, 2], [0, 0]]


def test_augmentation_is_stateless_and_keeps_the_shape() -> None:
    import tensorflow as tf

    x = np.random.default_rng(0).integers(1, 256, (64, 32, 32, 3)).astype(np.uint8)
    augment = tf.function(images.crop_and_flip)
    one, same, other = augment(x, [1, 2]), augment(x, [1, 2]), augment(x, [1, 3])
    assert one.shape == x.shape
    assert one.dtype == tf.uint8
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_crops_are_shifted_copies() -> None:
    x = np.arange(1, 37, dtype=np.uint8).reshape(1, 6, 6, 1)
    padded = np.pad(x[0, :, :, 0], 4)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (6, 6)).reshape(-1, 36)
    crops = [np.asarray(images.random_crop(x, [0, seed])).ravel() for seed in range(20)]
    assert all((windows == crop).all(axis=1).any() for crop in crops)
    assert len({crop.tobytes() for crop in crops}) > 10


def test_auto_says_in_one_line_that_it_uses_embedded_data(tmp_path: pathlib.Path) -> None:
    lines: list[str] = []
    data = tasks.load(tasks.TASKS["mnist"], "auto", str(tmp_path), log=lines.append)
    assert not data.real
    assert len(lines) == 1
    assert "--data=tfds" in lines[0]
    assert "--data_dir=<folder where mnist is prepared>" in lines[0]
    assert "\n" not in lines[0]


_SPLITS = {"train": slice(0, 8), "test": slice(8, 12)}


def _prepare(
    folder: pathlib.Path, data: str, version: str, splits: dict[str, slice]
) -> tuple[np.ndarray, np.ndarray]:
    """Writes a tiny set in the format of tfds; returns all of its images and labels."""
    import tensorflow_datasets as tfds

    shape = _IMAGE_SHAPES[data.partition("_")[0]]
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


def test_a_prepared_folder_is_read_and_not_written(tmp_path: pathlib.Path) -> None:
    x, y = _prepare(tmp_path, "mnist", "3.0.1", _SPLITS)
    before = sorted(path for path in tmp_path.rglob("*"))
    lines: list[str] = []
    data = tasks.load(
        tasks.TASKS["mnist"], "auto", str(tmp_path), partition="iid:4", clients=2, log=lines.append
    )
    assert lines == []
    assert data.real
    assert data.description == "real: mnist 3.0.1"
    assert data.test_x.shape == (4, 28, 28, 1)
    got = {
        image.tobytes(): label for client in (0, 1) for image, label in zip(*data.client(client))
    }
    assert got == {image.tobytes(): label for image, label in zip(x[:8], y[:8])}
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_svhn_has_its_extra_images(tmp_path: pathlib.Path) -> None:
    splits = {"train": slice(0, 4), "test": slice(4, 7), "extra": slice(7, 16)}
    x, y = _prepare(tmp_path, "svhn_cropped", "3.0.0", splits)
    data = tasks.load(tasks.TASKS["svhn"], "auto", str(tmp_path), partition="iid", clients=1)
    assert data.description == "real: svhn_cropped 3.0.0, train+extra"
    got = {image.tobytes(): label for image, label in zip(*data.client(0))}
    train = [*range(4), *range(7, 16)]
    assert got == {x[i].tobytes(): y[i] for i in train}
    assert {image.tobytes() for image in data.test_x} == {image.tobytes() for image in x[4:7]}


def test_the_newest_prepared_version_counts(tmp_path: pathlib.Path) -> None:
    for version in ("3.0.9", "3.0.10", "incomplete.3.1.0"):
        (tmp_path / "mnist" / version).mkdir(parents=True)
        (tmp_path / "mnist" / version / "dataset_info.json").touch()
    assert real.find_prepared("mnist", str(tmp_path)) == tmp_path / "mnist" / "3.0.10"
    assert real.find_prepared("cifar10", str(tmp_path)) is None


def test_a_broken_prepared_folder_is_one_line(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mnist" / "3.0.1").mkdir(parents=True)
    (tmp_path / "mnist" / "3.0.1" / "dataset_info.json").write_text("{")
    with pytest.raises(tasks.DataError, match="mnist could not be read or downloaded") as caught:
        tasks.load(tasks.TASKS["mnist"], "tfds", str(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["imdb", "emnist", "femnist"])
def test_no_network_is_one_line_at_once(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*_: Any, **__: Any) -> None:
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    start = time.perf_counter()
    with pytest.raises(tasks.DataError, match="does not answer .* or --data=embedded") as caught:
        tasks.load(tasks.TASKS[name], "tfds", str(tmp_path / "new"))
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - start < 5
    assert not (tmp_path / "new").exists()


def test_load_checks_its_arguments_before_it_reads() -> None:
    with pytest.raises(ValueError, match="data must be one of .* Received: data=other"):
        tasks.load(tasks.TASKS["mnist"], "other")
    with pytest.raises(ValueError, match="Received: partition=nope"):
        tasks.load(tasks.TASKS["mnist"], "tfds", "nowhere", partition="nope")
    with pytest.raises(IndexError, match="Received: client=50"):
        _load("mnist").client(50)


def test_femnist_is_assembled_by_writer() -> None:
    import tensorflow_federated as tff

    pixels = np.ones((3, 28, 28), np.float32)
    pixels[:, 0, 0], pixels[:, 0, 1] = 0.0, 0.5
    writers = {
        "f1": {"label": np.array([1, 2, 61], np.int32), "pixels": pixels},
        "f0": {"label": np.array([7], np.int32), "pixels": pixels[:1]},
    }
    client_data = tff.simulation.datasets.TestClientData(writers)
    arrays = femnist.assemble(client_data, client_data)
    assert arrays.train_x.shape == (4, 28, 28, 1)
    assert arrays.train_x.dtype == np.uint8
    assert arrays.train_x[0, 0, :3, 0].tolist() == [255, 128, 0]
    assert arrays.writers is not None
    names = np.array(client_data.client_ids)[arrays.writers]
    by_writer = {name: set(arrays.train_y[names == name]) for name in names}
    assert by_writer == {"f0": {7}, "f1": {1, 2, 61}}
    assert arrays.description == "real: Federated EMNIST, 2 writers"


def test_a_broken_femnist_download_leaves_no_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow_federated as tff

    def half_a_download(only_digits: bool, cache_dir: str) -> None:
        pathlib.Path(cache_dir, "emnist_all.sqlite").write_text("half")
        raise EOFError("connection lost")

    monkeypatch.setattr(real, "check_reachable", lambda name, url: None)
    monkeypatch.setattr(tff.simulation.datasets.emnist, "load_data", half_a_download)
    with pytest.raises(tasks.DataError, match="femnist .* EOFError: connection lost"):
        femnist.load_real(str(tmp_path))
    assert not femnist.is_prepared(str(tmp_path))


def test_synthetic_clients_are_functions_of_seed_and_number() -> None:
    data = _load("synthetic", partition="synthetic:1,1", clients=1_000_000, seed=5)
    few = _load("synthetic", partition="synthetic:1,1", clients=200, seed=5)
    x, y = data.client(123)
    assert np.array_equal(x, few.client(123)[0])
    assert x.shape == (data.client_size(123), 60)
    assert x.dtype == np.float32
    assert len(data.client(999_999)[1]) == data.client_size(999_999)
    assert np.array_equal(data.test_x, few.test_x)
    assert np.array_equal(synthetic.create_client(1, 1, 5, 123).y[: len(y)], y)


def test_synthetic_follows_its_equations() -> None:
    sizes = np.array([synthetic.size(0, client) for client in range(2000)])
    assert sizes.min() >= 50
    assert sizes.max() == 1000
    assert np.median(sizes) == pytest.approx(50 + np.exp(4), rel=0.1)
    clients = [synthetic.create_client(0, 0, 0, client) for client in range(200)]
    spread = np.mean([client.x.std(axis=0) for client in clients], axis=0)
    np.testing.assert_allclose(spread, np.arange(1, 61) ** -0.6, rtol=0.05)
    centres = [synthetic.create_client(0, 3, 0, client).x.mean() for client in range(200)]
    assert np.std(centres) == pytest.approx(3, rel=0.15)


@pytest.mark.parametrize("name", ["synthetic", "synthetic_feddc"])
def test_synthetic_takes_only_its_own_partition(name: str) -> None:
    with pytest.raises(ValueError, match="partition must read synthetic:ALPHA,BETA for this task"):
        _load(name, partition="iid")


def _accuracy_of_one_model(clients: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """What softmax regression on all clients' examples gets right of them."""
    x, y = (np.concatenate(part) for part in zip(*clients))
    x, kernel = np.c_[x, np.ones(len(x))], np.zeros((x.shape[1] + 1, y.max() + 1))
    for _ in range(300):
        p = np.exp(x @ kernel - (x @ kernel).max(axis=1, keepdims=True))
        p = p / p.sum(axis=1, keepdims=True) - np.eye(kernel.shape[1])[y]
        kernel -= 0.3 * x.T @ p / len(x)
    return float(np.mean(np.argmax(x @ kernel, axis=1) == y))


def test_feddcs_synthetic_data_have_its_codes_shapes() -> None:
    data = _load("synthetic_feddc", partition="synthetic:0,0", clients=20, seed=5)
    many = _load("synthetic_feddc", partition="synthetic:0,0", clients=1_000_000, seed=5)
    x, y = data.client(7)
    assert (x.shape, y.shape, data.client_size(7)) == ((200, 30), (200,), 200)
    assert (data.num_classes, set(np.unique(data.test_y))) == (5, set(range(5)))
    assert np.array_equal(data.test_x[7 * 200 : 8 * 200], x)
    assert (len(data.test_y), len(many.test_y)) == (4_000, 20_000)
    assert np.array_equal(many.client(7)[0], x)


def test_feddcs_synthetic_data_are_homogeneous_for_zero_and_fedproxs_are_not() -> None:
    numbers = range(20)
    same = [synthetic_feddc.create_client(0, 0, 0, i) for i in numbers]
    models = [synthetic_feddc.create_client(1, 0, 0, i) for i in numbers]
    inputs = [synthetic_feddc.create_client(0, 1, 0, i) for i in numbers]
    fedprox = [synthetic.create_client(0, 0, 0, i)[:2] for i in numbers]

    def centres(clients: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The spread over clients of the mean input, in the last features, of little noise."""
        return np.std([x[:, -10:].mean(axis=0) for x, _ in clients], axis=0)

    def class_shares(clients: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The spread over clients of the share of each class."""
        return np.std([np.bincount(y, minlength=10) / len(y) for _, y in clients], axis=0)

    assert max(centres(same).max(), centres(models).max()) < 0.03
    assert min(centres(inputs).min(), centres(fedprox).min()) > 0.5
    assert min(_accuracy_of_one_model(same), _accuracy_of_one_model(inputs)) > 0.75
    assert _accuracy_of_one_model(models) < 0.45
    assert max(class_shares(same)) < 0.06
    assert min(max(class_shares(models)), max(class_shares(fedprox))) > 0.1
    spread = np.std([x for x, _ in same], axis=(0, 1))
    np.testing.assert_allclose(spread, np.arange(1, 31) ** -0.6, rtol=0.05)
    other = synthetic_feddc.create_client(0, 0, 1, 0)
    assert not np.array_equal(same[0][0], other[0])
    assert not any(np.array_equal(same[0][0], x) for x, _ in same[1:])


def test_a_task_of_ones_own() -> None:
    arrays = embedded.digits(0)
    task = Task(
        name="own",
        description="",
        num_classes=10,
        input_shape=(28, 28, 1),
        loss="categorical",
        demo=_SETTINGS,
        papers={"none": dataclasses.replace(_SETTINGS, source="none")},
        default_paper="none",
        preprocess=images.standardise((0.0,), (1.0,)),
        load_embedded=lambda seed: arrays,
        load_real=lambda data_dir: arrays,
        is_prepared=lambda data_dir: True,
    )
    assert tasks.load(task).num_clients == 32


def test_a_part_of_the_training_examples_can_be_dealt_out():
    task = tasks.TASKS["mnist"]
    some = tasks.load(task, "embedded", clients=5, partition="iid", train_examples=60)
    assert sum(some.client_size(i) for i in range(5)) == 60
    assert some.description.endswith(", 60 training examples")
    whole = tasks.load(task, "embedded", clients=5, partition="iid")
    assert len(some.test_y) == len(whole.test_y)
    with pytest.raises(ValueError, match="train_examples must be from 1 to .* Received: .*=0"):
        tasks.load(task, "embedded", train_examples=0)
