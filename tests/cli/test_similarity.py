"""Flags of the command for figures 1 and 3."""

import pytest

from tests.similarity.flags import SMALL
from tff_partial.cli import similarity
from tff_partial.similarity import study

pytestmark = pytest.mark.usefixtures("keep_runtime")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--figure=2"], "figure must be one of [1, 3]. Received: figure=2"),
        (["--figure=first"], "invalid int value"),
        (["--rate=1"], "unrecognized arguments"),
        (["--task=tennis"], "task must be one of"),
        (["--model=vgg99"], "model must be one of"),
        (["--model=bilstm"], "model must take image inputs"),
        (["--figure=3", "--model=softmax"], "two blocks with parameters"),
        (["--partition=alphabet"], "partition must be one of"),
        (["--clients=1"], "clients must be at least 2"),
        (["--rounds=0"], "rounds must be at least 1"),
        (["--local_steps=0"], "local_steps"),
        (["--learning_rate=fast"], "learning_rate must"),
        (["--measure_every=0"], "measure_every must be positive"),
        (["--vectors=0"], "vectors must be positive"),
        (["--batches=0"], "batches must be positive"),
        (["--examples=8"], "examples must be more than 8"),
        (["--examples=401"], "held-out examples"),
        (["--seed=-1"], "seed must be at least 0"),
        (["--data=lost"], "data must be one of"),
        (["--preset=paper"], "must be one of"),
        (["--preset=paper", "--task=cifar10", "--model=resnet20"], "real data"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, capsys, flags, message):
    folder = tmp_path / "run"
    assert similarity.main([*SMALL, *flags, f"--output_dir={folder}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert "Received: " in line
    assert not folder.exists()


def test_flags_left_out_have_the_defaults_of_the_study():
    flags = similarity.parse(["--figure=3", "--vectors=2"])
    assert (flags.figure, flags.task, flags.preset, flags.vectors) == (3, "cifar10", "demo", 2)
    assert (flags.measure_every, flags.rounds) == (study.Measuring().measure_every, None)
