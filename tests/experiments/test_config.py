"""From names and numbers to an experiment."""

import numpy as np
import pytest

import models
import tasks
from tff_partial.algorithms import registry
from tff_partial.core.server_optimizers import ServerOptimizer
from tff_partial.experiments import components, config


@pytest.mark.parametrize("algo", sorted(registry.ALGORITHMS))
@pytest.mark.parametrize("name", sorted(tasks.TASKS))
def test_every_preset_of_every_task_is_valid(name, algo):
    config.create(name, algo)
    for paper, settings in tasks.TASKS[name].papers.items():
        created = config.create(name, algo, preset="paper", paper=paper)
        assert created.settings.rounds == settings.rounds
        assert created.settings.source
        assert settings.model in models.NAMES


def test_overrides_replace_the_presets_local_work():
    by_steps = config.create("mnist", "fedavg", local_steps=3)
    assert (by_steps.settings.local_steps, by_steps.settings.local_epochs) == (3, None)
    by_epochs = config.create("cifar10", "fedavg", local_epochs=2)
    assert (by_epochs.settings.local_steps, by_epochs.settings.local_epochs) == (None, 2)


def test_settings_reach_local_training():
    created = config.create("mnist", "fedavg", learning_rate="0.3", momentum=0.7, batch_size=9)
    local = config.create_params(created).local
    assert float(local.schedule()(5)) == pytest.approx(0.3)
    assert (local.momentum, local.batch_size) == (0.7, 9)


def test_identity_names_the_data_and_the_hyperparameters():
    created = config.create("mnist", "fedavg", fedavg_weighting="uniform")
    data = components.load_data(created, "embedded", None)
    identity = created.identity(data)
    assert identity["fedavg_weighting"] == "uniform"
    assert identity["data"] == data.description
    assert data.description.startswith("embedded")


@pytest.mark.parametrize("task", sorted(tasks.TASKS))
@pytest.mark.parametrize("algo", ["partial_averaging", "periodic_averaging", "vrl_sgd"])
def test_averaging_has_an_interval_on_every_task(task, algo):
    created = config.create(task, algo)
    params = config.create_params(created)
    assert params.interval() == created.settings.local_steps >= 1
    assert params.period() in (0, 1, 10)
    with pytest.raises(ValueError, match="Received: epochs=2"):
        config.create(task, algo, local_epochs=2)


@pytest.mark.parametrize(
    ("algo", "normalization", "clip_norm"),
    [("heterofl", "static", 1.0), ("feddse", "static", 1.0), ("fjord", None, None)],
)
def test_an_algorithms_own_defaults_apply_where_nobody_decides(algo, normalization, clip_norm):
    changes = {"model": "resnet20"}
    created = config.create("cifar10", algo, **changes)
    assert (created.normalization, created.settings.clip_norm) == (normalization, clip_norm)
    changes["clip_norm"] = 3.0
    chosen = config.create("cifar10", algo, normalization="group", **changes)
    assert (chosen.normalization, chosen.settings.clip_norm) == ("group", 3.0)
    plain = config.create("mnist", algo, model="mlp_200")
    assert plain.normalization is None  # the model has none


def test_the_experiment_fills_in_what_an_algorithm_needs():
    def params(algo, **needed):
        return config.create_params(config.create("mnist", algo), **needed)

    assert params("embracing").tier_names == ("strong", "moderate", "weak")
    assert params("scaffold").population == config.create("mnist", "scaffold").settings.clients
    examples = params("feddse", data=_Clients([5, 5])).server_examples(4)
    assert np.bincount(examples[:, 0]).tolist() == [2, 2]


class _Clients:
    """Client i has so many examples, all of them i."""

    def __init__(self, sizes):
        self._sizes, self.num_clients = sizes, len(sizes)

    def client(self, i):
        return np.full([self._sizes[i], 2], i), np.zeros(self._sizes[i])


@pytest.mark.parametrize(
    ("sizes", "examples", "expected"),
    [
        ([50, 50, 50, 50], 40, [10, 10, 10, 10]),
        ([50, 3, 0, 50], 43, [20, 3, 0, 20]),
        ([2, 3, 0, 1], 43, [2, 3, 0, 1]),
    ],
)
def test_examples_of_the_server_come_from_all_clients_alike(sizes, examples, expected):
    found = config.mixed_examples(_Clients(sizes), 0, examples)
    assert np.bincount(found[:, 0], minlength=4).tolist() == expected
    assert len(config.mixed_examples(_Clients([5] * 100), 0, 10)) == 10


@pytest.mark.parametrize("algo", ["feddyn", "feddc", "fedumf_feddc"])
def test_a_demo_has_hyperparameters_of_its_own(algo):
    assert config.create_params(config.create("mnist", algo)).alpha == 0.1
    given = config.create("mnist", algo, **{f"{algo}_alpha": 0.03})
    assert config.create_params(given).alpha == 0.03
    paper = config.create("mnist", algo, preset="paper")
    assert config.create_params(paper).alpha == 0.01


def test_optimizers_and_their_rates():
    adam = config.create("mnist", "embracing", local_optimizer="adam", local_beta_1=0.8)
    local = config.create_params(adam).local
    assert (local.optimizer, local.learning_rate, local.momentum) == ("adam", "0.001", 0.0)
    assert (local.beta_1, local.beta_2) == (0.8, 0.999)
    rate = config.create("mnist", "fedavg", local_optimizer="adamw", learning_rate="0.2")
    assert config.create_params(rate).local.learning_rate == "0.2"
    server = config.create("mnist", "heterofl", server_optimizer="fedyogi", server_tau=0.1)
    assert config.create_params(server).server == ServerOptimizer("fedyogi", tau=0.1)


@pytest.mark.parametrize(
    ("algo", "given", "message"),
    [
        ("fedavg", {"local_optimizer": "lion"}, "optimizer must be one of sgd, adam, adamw"),
        ("scaffold", {"local_optimizer": "adam"}, "optimizer must be sgd, whose"),
        ("fedavg", {"local_optimizer": "adam", "momentum": 0.9}, "momentum must be 0"),
        ("fedavg", {"local_epsilon": 0.1}, "local_epsilon must be given with local_optimizer adam"),
        ("fedavg", {"server_optimizer": "adam"}, "server_optimizer must be one of sgd, fedavgm"),
        ("fedavg", {"server_optimizer": "fedavgm", "server_tau": 1.0}, "server_tau must be given"),
        ("feddyn", {"server_optimizer": "fedadam"}, "server_optimizer must be sgd with"),
    ],
)
def test_optimizers_that_do_not_fit_are_refused(algo, given, message):
    with pytest.raises(ValueError, match=f"{message}.* Received: "):
        config.create("mnist", algo, **given)
