"""What --help and --describe say of algorithms."""

import re

import pytest
from absl import flags

from tff_partial.algorithms import registry
from tff_partial.cli import run as run_experiment


def test_help_says_what_every_hyperparameter_means():
    values = flags.FlagValues()
    run_experiment.define_flags(values)
    for algo, algorithm in registry.ALGORITHMS.items():
        for hyperparameter in algorithm.hyperparameters:
            line = values[f"{algo}_{hyperparameter.name}"].help
            assert re.fullmatch(r"[A-Z`].{10,} Default: .+\.", line), line


@pytest.mark.parametrize("algo", registry.ALGORITHMS)
def test_describe(algo, capsys):
    assert run_experiment.main([f"--describe={algo}", "--task=mnist"]) == 0
    text = capsys.readouterr().out
    algorithm = registry.ALGORITHMS[algo]
    assert text.startswith(f"{algo}: {algorithm.title}\n")
    for hyperparameter in algorithm.hyperparameters:
        assert f"--{algo}_{hyperparameter.name}: " in text
    assert ("\n  --tiers" in text) == ("tiers" in algorithm.needs)
    assert "\n  --model=mlp_200\n" in text


def test_describe_names_what_there_is(capsys):
    assert run_experiment.main(["--describe=fedsgd"]) == 2
    assert "algo must be one of" in capsys.readouterr().err
