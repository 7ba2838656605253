"""What --help and --describe say of algorithms."""

import dataclasses
import re

import pytest
from absl import flags

from tff_partial.algorithms import registry
from tff_partial.cli import run as run_experiment


def test_help_says_what_every_hyperparameter_means():
    values = flags.FlagValues()
    run_experiment.define_flags(values)
    for algo, algorithm in registry.ALGORITHMS.items():
        for name in run_experiment.param_fields(algorithm.params):
            line = values[f"{algo}_{name}"].help
            assert re.fullmatch(r"[A-Z`].{10,} Default: .+\.", line), line


def test_a_hyperparameter_that_cannot_be_a_flag_or_is_not_described_is_an_error():
    @dataclasses.dataclass(frozen=True)
    class Params:
        """Of an algorithm.

        Attributes:
          sizes: Of the layers.
        """

        sizes: tuple = ()

    with pytest.raises(ValueError, match=r"must be one of .*Received: mine.sizes"):
        run_experiment._define_params(flags.FlagValues(), "mine", Params)

    @dataclasses.dataclass(frozen=True)
    class Undescribed:
        """Of an algorithm."""

        size: int = 1

    with pytest.raises(ValueError, match="must describe size"):
        run_experiment._define_params(flags.FlagValues(), "mine", Undescribed)


@pytest.mark.parametrize("algo", registry.ALGORITHMS)
def test_describe(algo, capsys):
    assert run_experiment.main([f"--describe={algo}", "--task=mnist"]) == 0
    text = capsys.readouterr().out
    algorithm = registry.ALGORITHMS[algo]
    assert text.startswith(f"{algo}: {algorithm.title}\n")
    for name in run_experiment.param_fields(algorithm.params):
        assert f"--{algo}_{name}: " in text
    assert ("\n  --tiers" in text) == algorithm.has_tiers
    assert "\n  --model=mlp_200\n" in text


def test_describe_names_what_there_is(capsys):
    assert run_experiment.main(["--describe=fedsgd"]) == 2
    assert "algo must be one of" in capsys.readouterr().err
