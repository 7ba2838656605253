"""The report's command as a user meets it."""

import os

import pytest

from tests.report.report_folders import row, write, write_recipe, write_run
from tff_partial.cli.report import main


def test_command_of_the_report(results, tmp_path, capsys, monkeypatch):
    write_run(results / "a", [0.5])
    monkeypatch.chdir(tmp_path)
    assert main(["results", "--output=page.html"]) == 0
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert main(["results"]) == 0
    assert (tmp_path / "report.html").read_text() == (tmp_path / "page.html").read_text()
    capsys.readouterr()
    assert main(["results", "--markdown"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("# Results")
    assert printed.err == ""
    assert main(["results/a", "results", "--markdown", "--output=results.md"]) == 0
    assert (tmp_path / "results.md").read_text() == printed.out


def replace_by_pipe(path):
    path.unlink()
    os.mkfifo(path)


BAD = {
    "missing folder": lambda results: None,
    "nothing in it": lambda results: results.mkdir(),
    "no json": lambda results: write(results / "recipe.json", "{"),
    "no object": lambda results: write(results / "recipe.json", "[]"),
    "no rows": lambda results: write_recipe(results, None),
    "row without id": lambda results: write_recipe(results, [{"label": "a"}]),
    "row that is no object": lambda results: write_recipe(results, ["a"]),
    "row outside": lambda results: write_recipe(results, [row("../../a")]),
    "unknown kind": lambda results: write_recipe(results, [row("a")], kind="guess"),
    "metric in words": lambda results: write_recipe(results, [row("a")], metric="accuracy"),
    "figure in words": lambda results: write_recipe(results, [row("a", paper={"value": "1"})]),
    "no accuracy as target": lambda results: write_recipe(
        results, [row("a", paper={"targets": [{"value": 1}]})]
    ),
    "config that is no config": lambda results: write(
        write_run(results / "a", [0.5]) / "config.json", '{"settings": 1}'
    ),
    "metrics that are no numbers": lambda results: write_run(results / "a", ["high"]),
    "deep json": lambda results: write(
        write_run(results / "a", [0.5]) / "summary.json", '{"a": ' * 5000 + "1" + "}" * 5000
    ),
    "lone surrogate": lambda results: write_recipe(results, [row("a", label="\ud800")]),
    "lone surrogate as a key": lambda results: write_run(
        results / "a", [0.5], summary={"\ud800": 1}
    ),
    "number too large": lambda results: write_run(results / "a", [0.5], summary={"x": 10**400}),
    "settings without algorithm": lambda results: write(
        write_run(results / "a", [0.5]) / "config.json", '{"settings": {"task": "mnist"}}'
    ),
    "no settings": lambda results: write(write_run(results / "a", []) / "config.json", "{}"),
    "target in words": lambda results: write_run(results / "a", [], target_accuracy="high"),
    "capacities that are none": lambda results: write_run(results / "a", [], capacities="1/00"),
    "tiers that are none": lambda results: write_run(results / "a", [], tiers="<b>:4"),
    "row longer than the head": lambda results: write(
        write_run(results / "a", [0.5]) / "metrics.csv", "round,seconds\n1,2,3\n"
    ),
    "no rounds": lambda results: write(
        write_run(results / "a", [0.5]) / "metrics.csv", "seconds\n1\n"
    ),
    "round that is no number": lambda results: write(
        write_run(results / "a", [0.5]) / "metrics.csv", "round,seconds\nnan,1\n"
    ),
    "a pipe": lambda results: replace_by_pipe(write_run(results / "a", [0.5]) / "config.json"),
    "recipe above": lambda results: write_recipe(results, [row("a")], recipe="../secret"),
    "recipe from the root": lambda results: write_recipe(results, [row("a")], recipe="/etc/x"),
    "metrics that are no table": lambda results: (
        write_run(results / "a", [0.5]) / "metrics.csv"
    ).write_bytes(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("spoil", BAD.values(), ids=BAD.keys())
@pytest.mark.parametrize("form", [[], ["--markdown"]])
def test_bad_input_is_one_line_and_exit_code_2(results, tmp_path, capsys, spoil, form):
    spoil(results)
    output = tmp_path / "report"
    assert main([str(results), f"--output={output}", *form]) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("error: ")
    assert "Received" in line
    assert printed.out == ""
    assert [path.name for path in tmp_path.iterdir()] in ([], ["results"])


def test_a_folder_whose_name_is_no_text_is_shown(results, tmp_path):
    os.mkdir(os.fsencode(results.parent) + b"/\xff")
    write_run(tmp_path / "\udcff" / "a", [0.5])
    assert main([str(tmp_path), f"--output={tmp_path / 'page.html'}"]) == 0
    assert "\\udcff" in (tmp_path / "page.html").read_text()


def test_bad_output_is_one_line_and_exit_code_2(results, tmp_path, capsys):
    write_run(results / "a", [0.5])
    os.mkfifo(tmp_path / "pipe")
    nowhere = f"{tmp_path}/none/report.html"
    for output in ("", str(tmp_path), nowhere, f"{results}/a/config.json/x", f"{tmp_path}/pipe"):
        assert main([str(results), f"--output={output}"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "Received" in line
