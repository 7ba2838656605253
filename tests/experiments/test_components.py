"""Data, model, process and costs of an experiment."""

import types

import numpy as np
import pytest

from tff_partial.experiments import components, config
from tff_partial.processes.averaging import AveragingProcess

SMALL = {"model": "mlp_100", "clients": 6, "clients_per_round": 2}


def create(algo="fedavg", **changes):
    experiment = config.create("mnist", algo, **{**SMALL, **changes})
    data = components.load_data(experiment, "embedded", None, log=lambda line: None)
    return experiment, data, components.create_model(experiment, data)


def test_a_papers_settings_refuse_embedded_data():
    experiment = config.create("mnist", "fedavg", preset="paper")
    with pytest.raises(ValueError, match="must have the real data.*Received: data='embedded'"):
        components.load_data(experiment, "embedded", None)


def test_models_follow_the_seed_and_take_the_data():
    weights = []
    for seed in (0, 0, 1):
        _, data, model = create(seed=seed)
        assert model.input_shape == data.input_shape
        weights.append(model.instantiate().trainable[0].numpy())
    assert np.array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])


@pytest.mark.parametrize(("only", "share"), [("", 0.5), ("strong", 1.0)])
def test_tiers_that_take_part_count_for_the_capacity(only, share):
    experiment, data, model = create("embracing", tiers="strong:3,weak:3", only_tiers=only)
    params, (_, weak) = config.create_params(experiment), config.tiers_of(experiment)
    capacity = experiment.algorithm.cost(model, params, weak).capacity
    accounts = components.create_accounts(experiment, model, data)
    assert 0 < capacity < 1
    assert accounts.average_capacity() == pytest.approx(share + (1 - share) * round(capacity, 2))


def test_several_workers_run_averaging_in_steps(monkeypatch):
    process = object.__new__(AveragingProcess)
    monkeypatch.setattr(AveragingProcess, "in_steps", lambda self: "in steps")
    monkeypatch.setattr(config, "create_params", lambda experiment, data: None)
    algorithm = types.SimpleNamespace(build=lambda model, params: process)
    settings = types.SimpleNamespace(aggregation="mean")
    experiment = types.SimpleNamespace(algorithm=algorithm, settings=settings)
    assert components.create_process(experiment, None, None) is process
    assert components.create_process(experiment, None, None, several_workers=True) == "in steps"
