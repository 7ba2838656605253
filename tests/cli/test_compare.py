"""Tables of runs beside each other."""

from tff_partial.cli import compare


def write(folder, accuracies):
    folder.mkdir()
    lines = ["round,test_accuracy", *(f"{i + 1},{a}" for i, a in enumerate(accuracies))]
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
    return str(folder)


def test_the_first_round_that_reaches_a_target_counts(tmp_path, capsys):
    first = write(tmp_path / "first", [0.5, "", 0.93, 0.91, 0.95])
    second = write(tmp_path / "second", [0.2, 0.9])
    assert compare.main([first, second + "/", "--targets=0.92,0.95"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "| run | 92 % | 95 % | final | best | rounds |",
        "| --- | --- | --- | --- | --- | --- |",
        "| first | 3 | 5 | 0.9500 | 0.9500 | 5 |",
        "| second | * | * | 0.9000 | 0.9000 | 2 |",
    ]


def test_tests_on_a_sample_are_marked_and_not_mixed_with_those_on_all(tmp_path, capsys):
    for name, last in (("done", "2,0.7,,5000"), ("stopped", "2,,0.7,1000")):
        (tmp_path / name).mkdir()
        head = "round,test_accuracy,sampled_test_accuracy,test_examples"
        (tmp_path / name / "metrics.csv").write_text(f"{head}\n1,,0.9,1000\n{last}\n")
    assert compare.main([str(tmp_path / "done"), str(tmp_path / "stopped"), "--targets=0.8"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| done | 1 (on 1,000 examples) | 0.7000 | 0.7000 | 2 |",
        "| stopped | 1 (on 1,000 examples) | - | - | 2 |",
    ]


def test_bad_input_is_one_line_and_exit_code_2(tmp_path, capsys):
    for args in ([str(tmp_path / "none")], [str(tmp_path), "--targets=high"]):
        assert compare.main(args) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "Received" in line
