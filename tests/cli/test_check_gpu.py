"""The check of a GPU, on a machine that has none."""

import pytest

from tff_partial.cli import check_gpu


def test_without_a_gpu_it_says_so(capsys):
    assert check_gpu.main([]) == 1
    report = capsys.readouterr().out
    assert "- GPUs that TensorFlow sees: none" in report
    assert "| device | devices must be of CPU:0, each once. Received: devices='GPU:0'" in report
    assert report.rstrip().endswith("| **FAILED** |")


def test_every_line_of_the_report_is_made(capsys):
    assert check_gpu.main(["--device=CPU:0", "--model=softmax", "--steps=1"]) == 0
    report = capsys.readouterr().out
    assert "largest difference of the update | 0.0e+00 (at most 1e-03) | ok |" in report
    for line in ("a round on CPU:0, float32", "bfloat16", "float16", "LSTM in cuDNN's kernel | no"):
        assert line in report


def test_a_result_that_differs_fails(capsys, monkeypatch):
    monkeypatch.setattr(check_gpu, "TOLERANCE", -1.0)
    monkeypatch.setattr(check_gpu, "_seconds", lambda *args: "1")
    monkeypatch.setattr(check_gpu, "_lstm", lambda device: check_gpu.Check("LSTM", "no"))
    assert check_gpu.main(["--device=CPU:0", "--model=softmax", "--steps=1"]) == 1
    assert "**FAILED**" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--model=nonsense", "--steps=0", "--steps=x", "--gpu"])
def test_wrong_flags_are_one_line(flag, capsys):
    assert check_gpu.main([flag]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
