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


def test_bad_input_is_one_line_and_exit_code_2(tmp_path, capsys):
    for args in ([str(tmp_path / "none")], [str(tmp_path), "--targets=high"]):
        assert compare.main(args) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "Received" in line
