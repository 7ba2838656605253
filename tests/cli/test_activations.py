"""Flags of the command for FedDSE's figures of neurons."""

import pytest

from tff_partial.cli import activations

pytestmark = pytest.mark.usefixtures("keep_runtime")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--examples=0"], "examples must be positive. Received: examples=0"),
        (["--rate=1"], "unrecognized arguments"),
        (["--task=tennis"], "task must be one of"),
        (["--model=bilstm"], "model must take image inputs"),
        (["--clients=1"], "clients must be at least 2"),
        (["--rounds=0"], "rounds must be at least 1"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, capsys, flags, message):
    folder = tmp_path / "run"
    assert activations.main(["--data=embedded", *flags, f"--output_dir={folder}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert not folder.exists()


def test_flags_left_out_have_defaults():
    flags = activations.parse([])
    assert (flags.task, flags.examples, flags.rounds, flags.model) == ("mnist", 256, None, None)
