"""`python -m tff_partial.claims`."""

import re

from tff_partial.cli.claims import main


def test_the_ledger_of_the_repository_is_printed(capsys):
    assert main(["--paper=fedumf"]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("HOLDS: On IID MNIST FedUMF needs 0.57 of FedAvg's rounds to 95 %.")
    assert lines[place + 1] == "  fedumf/table1, table 1, rate 0.01, C = 0.1"
    assert "seeds: 3; the paper's setting" in lines[place + 2]
    assert lines[-1].startswith("Of 6 claims of the papers, ")


def test_counts_are_written_into_a_file(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("Before. Of 1 claims of the papers, 1 hold. After.\n")
    assert main([f"--counts_in={page}"]) == 0
    text = page.read_text()
    assert re.fullmatch(r"Before\. Of \d\d claims of the papers, .*\. After\.\n", text)
    assert capsys.readouterr().out == ""


def test_wrong_input_is_one_line(tmp_path, capsys):
    assert main([str(tmp_path / "missing")]) == 2
    assert main(["--paper=other"]) == 2
    assert main([f"--counts_in={tmp_path / 'missing'}"]) == 2
    first, second, third = capsys.readouterr().err.splitlines()
    assert first.startswith("error: results must be a folder. Received: ")
    assert second.startswith("error: flags must be as in --help: ")
    assert third.startswith("error: ")
