"""A run from its settings to its results."""

import json

import pytest

from tff_partial.experiments import config as experiment_config
from tff_partial.experiments import run as experiment_run


@pytest.mark.usefixtures("keep_runtime")
def test_config_of_a_run_says_whether_its_data_are_real(tmp_path):
    settings = {"task": "mnist", "algo": "fedavg", "data": "embedded", "model": "softmax"}
    experiment_run.prepare(**settings, output_dir=str(tmp_path)).lock.close()
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["execution"]["data_is_real"] is False
    assert "data_is_real" not in config["settings"]
    created = experiment_config.create("mnist", "fedavg", preset="paper", paper="fedpmt")
    assert (config["execution"]["paper"], created.paper) == (None, "fedpmt")
