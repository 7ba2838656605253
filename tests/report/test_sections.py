"""Which sections a folder of results has; damaged files; remarks."""

import re
import shutil

from tests.report.report_folders import rendered, row, tables, write, write_recipe, write_run
from tff_partial.cli.report import main
from tff_partial.report import sections


def test_folders_within_each_other_have_a_recipe_once(results):
    write_recipe(results, [row("a", 50.0)])
    assert len(sections.find([str(results), str(results / "recipes")])) == 1


def test_single_runs_are_grouped_and_seeds_joined(results):
    write_run(results / "a", [0.2, "", 0.4, 0.6])
    write_run(results / "b", [0.2, "", 0.8, 0.8], seed=1)
    write_run(results / "b-again", [0.2, "", 0.8], seed=1, rounds=4)
    write_run(results / "deep" / "c", [0.2, "", 0.4, 0.4], algo="fedprox", fedprox_mu=0.1)
    write_run(results / "d", [0.9], model="mlp_200", target_accuracy=None)
    (results / "a" / "checkpoints").mkdir()
    text, html = rendered(results)
    first, second = tables(text)
    assert [line["row"] for line in first] == ["fedavg", "fedprox"]
    assert first[0]["final accuracy, %"] == "70.00 ± 14.14"
    assert first[0]["rounds to target"] == "3.5 ± 0.7"
    assert first[0]["seeds"] == "2"
    assert [line["fedprox_mu"] for line in first] == ["–", "0.1"]
    assert first[1]["rounds to target"] == "not reached"
    assert list(second[0]) == ["row", "final accuracy, %", "best accuracy, %", "rounds", "seeds"]
    assert "for seed in 0 1; do python run_experiment.py --task=mnist" in text
    assert "<h2" in html


def test_remarks_stand_below_the_tables_of_their_recipe(results, tmp_path, capsys):
    for folder in (results / "one", results / "other"):
        write_recipe(folder, [row("case1", 50.0)])
    write_recipe(results / "one", [row("case1", 50.0)], "fedumf/table1")
    remarks = tmp_path / "remarks"
    (remarks / "embracing").mkdir(parents=True)
    (remarks / "introduction.md").write_text("See [others](others.md).\n")
    (remarks / "embracing" / "table3.md").write_text("First, `a < b`.\n\nSecond.\n")
    output = tmp_path / "out"
    flags = [str(results), f"--remarks={remarks}", f"--output={output}"]
    assert main([*flags, "--markdown"]) == 0
    text = output.read_text()
    assert text.index("[others](others.md)") < text.index("## embracing")
    assert text.count("First, `a < b`.\n\nSecond.\n\n") == 1
    assert text.rindex("## embracing") < text.index("Second.") < text.index("## fedumf")
    assert main(flags) == 0
    assert '<p class="remark">First, <code>a &lt; b</code>.</p>' in output.read_text()
    capsys.readouterr()
    assert main([str(results), "--remarks=missing"]) == 2
    assert capsys.readouterr().err == "error: remarks must be a folder. Received: missing\n"


def test_damaged_files_are_named_a_line_each(results, capsys):
    write_run(results / "a", [0.5])
    write(write_run(results / "b", [0.5]) / "config.json", "[")
    write(write_run(results / "c", [0.5]) / "summary.json", '"\\ud800"')
    write_run(results / "d", ["much"])
    assert main([str(results), "--markdown"]) == 0
    printed = capsys.readouterr()
    assert "| 50.00 |" in printed.out
    lines = printed.err.splitlines()
    assert [re.search(r"left out: .*results/([a-d])", x)[1] for x in lines] == ["b", "c", "d"]
    shutil.rmtree(results / "a")
    assert main([str(results), "--markdown"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_remarks_are_read_only_from_their_folder(results, tmp_path, capsys):
    write(tmp_path / "secret.md", "secret")
    (tmp_path / "remarks").mkdir()
    for name in ("../secret", f"{tmp_path}/secret", "a/../../secret"):
        shutil.rmtree(results, ignore_errors=True)
        write_recipe(results, [row("a")], recipe=name)
        assert main([str(results), "--markdown", f"--remarks={tmp_path / 'remarks'}"]) == 2
        printed = capsys.readouterr()
        assert "secret\n" not in printed.out
        assert "a name such as paper/table1" in printed.err
