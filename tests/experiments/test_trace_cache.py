"""Traced graphs on disk: found when they are the same, and only then."""

import dataclasses
import os
import re

import pytest
import tensorflow as tf
from tensorflow_federated.proto.v0 import computation_pb2

from tff_partial.algorithms import registry
from tff_partial.experiments import components, config, flags, trace_cache

TINY = {"task": "mnist", "model": "mlp_100", "width": 0.1, "clients": 12, "local_steps": 2}
# A value of each setting that differs from that of TINY with FedAvg; None: it cannot be given.
OTHER = {
    "task": "fashion_mnist",
    "algo": "fedprox",
    "preset": None,
    "paper": None,
    "normalization": None,
    "augment": None,
    "seed": 1,
    "model": "mlp_200",
    "partition": "iid",
    "clients": 16,
    "clients_per_round": 3,
    "rounds": 7,
    "batch_size": 3,
    "learning_rate": "0.123",
    "momentum": 0.3,
    "weight_decay": 0.01,
    "weight_decay_on": "all",
    "clip_norm": 2.0,
    "local_steps": 3,
    "local_epochs": 1,
    "width": 0.2,
    "tiers": None,
    "only_tiers": None,
    "capacities": None,
    "target_accuracy": 0.5,
    "eval_every": 3,
    "eval_examples": 10,
    "evaluate": "clients",
    "train_examples": 100,
    "precision": "bfloat16",
    "record_precision": "bfloat16",
    "local_optimizer": "adam",
    "local_beta_1": None,
    "local_beta_2": None,
    "local_epsilon": None,
    "server_optimizer": "fedavgm",
    "server_learning_rate": 0.5,
    "server_beta_1": None,
    "server_beta_2": None,
    "server_tau": None,
    "sampler": "math:gcd",
    "sampling": None,
    "aggregation": "robust",
    "robust_clip": None,
    "secure_bound": None,
    "dp_noise_multiplier": None,
    "dp_clip": None,
    "dp_delta": None,
    "target_epsilon": None,
}


def prepare(**changes):
    settings = {**TINY, **changes}
    if "local_epochs" in changes:
        del settings["local_steps"]
    experiment = config.create(**settings)
    return experiment, components.load_data(experiment, "embedded", None, lambda line: None)


def settings_of(**changes):
    return trace_cache.settings_of(*prepare(**changes))


def test_every_setting_has_another_value():
    own = set(flags.OWNERS)
    assert set(OTHER) | set(flags.DEVICES) == set(flags.DECIDING) - own


@pytest.mark.parametrize("name", [n for n, value in OTHER.items() if value is not None])
def test_every_setting_that_enters_a_graph_changes_the_key(name):
    same = settings_of(**{name: OTHER[name]}) == settings_of()
    assert same == (name in trace_cache.NOT_IN_GRAPHS)


@pytest.mark.parametrize("algo", registry.ALGORITHMS)
def test_every_hyperparameter_changes_the_key(algo):
    base = settings_of(algo=algo)
    for name in [name for name, owner in flags.OWNERS.items() if owner == algo]:
        experiment, data = prepare(algo=algo)
        short = name[len(algo) + 1 :]
        changed = dataclasses.replace(experiment, params={**experiment.params, short: "other"})
        assert trace_cache.settings_of(changed, data) != base, name


class Kept(dict):
    """Keeps graphs in memory."""

    put = dict.__setitem__


def graphs(**changes):
    """The graphs that a process traces, by name, without the numbers that TensorFlow counts on."""
    kept = Kept()
    experiment, data = prepare(**changes)
    model = components.create_model(experiment, data)
    components.create_process(experiment, model, data, store=kept)
    return {name: readable(content) for name, content in kept.items()}


def readable(content):
    proto = computation_pb2.Computation.FromString(content.partition(b"\n")[2])
    graph_def = tf.compat.v1.GraphDef()
    assert proto.tensorflow.graph_def.Unpack(graph_def)
    parts = [*graph_def.node, *graph_def.library.function]
    return sorted(re.sub(r"_\d+", "", str(part)) for part in parts)


@pytest.mark.parametrize("algo", ["embracing", "feddse", "scaffold", "partial_averaging"])
def test_settings_that_are_not_in_the_key_change_no_graph(algo):
    expected = graphs(algo=algo)
    assert expected
    assert graphs(algo=algo, learning_rate="0.123") != expected
    changes = {name: OTHER[name] for name in trace_cache.NOT_IN_GRAPHS}
    if OTHER["aggregation"] in registry.ALGORITHMS[algo].refused:
        del changes["aggregation"]
    assert graphs(algo=algo, **changes) == expected


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "traces")


def test_what_was_put_is_found_by_the_same_settings_only(folder):
    cache = trace_cache.TraceCache(folder, {"width": 1})
    assert cache.get("a") is None
    cache.put("a", b"content")
    assert trace_cache.TraceCache(folder, {"width": 1}).get("a") == b"content"
    assert trace_cache.TraceCache(folder, {"width": 2}).get("a") is None
    assert cache.get("b") is None


@pytest.mark.parametrize("change", ["source", "versions"])
def test_another_installation_finds_nothing(folder, monkeypatch, change):
    trace_cache.TraceCache(folder, {}).put("a", b"content")
    trace_cache._installation.cache_clear()
    if change == "versions":
        monkeypatch.setattr(trace_cache.metadata, "version", lambda name: "0")
    else:
        read = trace_cache.pathlib.Path.read_bytes
        monkeypatch.setattr(trace_cache.pathlib.Path, "read_bytes", lambda path: read(path) + b" ")
    try:
        assert trace_cache.TraceCache(folder, {}).get("a") is None
    finally:
        trace_cache._installation.cache_clear()


def test_a_damaged_file_counts_as_none(folder):
    cache = trace_cache.TraceCache(folder, {})
    cache.put("a", b"content")
    [name] = os.listdir(folder)
    with open(os.path.join(folder, name), "r+b") as file:
        file.seek(34)
        file.write(b"?")
    assert cache.get("a") is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    cache = trace_cache.TraceCache(str(tmp_path / "file" / "traces"), {})
    cache.put("a", b"content")
    assert cache.get("a") is None


def test_the_oldest_go_first(folder, monkeypatch):
    monkeypatch.setattr(trace_cache, "_LIMIT", 2 * (32 + 10))
    cache = trace_cache.TraceCache(folder, {})
    for age, name in ((3, "a"), (2, "b")):
        cache.put(name, bytes(10))
        path = cache._path(name)
        os.utime(path, (os.path.getmtime(path) - age * 100,) * 2)
    assert cache.get("a") is not None  # now it has been used
    cache.put("c", bytes(10))
    assert [cache.get(name) is None for name in "abc"] == [False, True, False]


def test_code_of_the_user_is_not_kept():
    experiment, data = prepare(model=lambda: None)
    assert trace_cache.create("auto", experiment, data) is None


def test_none_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert trace_cache.create("none", *prepare()) is None
    trace_cache.create("auto", *prepare()).put("a", b"content")
    assert len(list(tmp_path.rglob("*.trace"))) == 1
