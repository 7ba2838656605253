"""What a recipe's section says of its setting and data."""

import re

import pytest

from tests.report.report_folders import MARK, rendered, row, tables, write_recipe, write_run
from tff_partial.report import curves, markdown, sections


@pytest.mark.parametrize(
    ("command", "preset", "shown"),
    [("", "demo", False), ("", "paper", True), ("--target_accuracy=0.5", "demo", True)],
)
def test_the_demos_target_is_not_that_of_a_table_of_accuracies(results, command, preset, shown):
    folder = write_recipe(results, [row("a", 50.0, f"python run_experiment.py {command}")])
    write_run(folder / "a" / "seed-0", [0.2, 0.6], preset=preset)
    (section,) = sections.find([str(results)])
    _, (line,) = tables(markdown.part(section))
    assert ("rounds to target" in line) == shown
    assert (curves.figure(section)["target"] is not None) == shown


def test_flags_beside_the_scale_are_said_and_tell_recipes_apart(results):
    given = {"clients": 32, "augment": True}
    for folder, partition in ((results / "one", "dirichlet:1"), (results / "other", "iid")):
        changes = {**given, "partition": partition}
        write_recipe(folder, [row("case1", 50.0)], scale=1.0, given=changes)
    text, html = rendered(results)
    titles = re.findall("^## (.*)$", text, re.MULTILINE)
    assert [title.rpartition(" ")[2] for title in titles] == [
        "(partition=dirichlet:1)",
        "(partition=iid)",
    ]
    flags = "--clients=32 --augment=true --partition=iid"
    assert f"Changed: 0 of 1 rows, {flags}." in text
    assert "scale 1" not in text.lower()
    assert "a tenth of the rounds" not in text  # nothing was shrunk by the rule
    assert f"<small>changed: 0 of 1 rows, {flags}</small>" in html
    assert "share (paper)" in tables(text)[0][0]


@pytest.mark.parametrize(
    ("scale", "changes", "fact", "head"),
    [
        (1.0, {}, "The paper's setting: 1 of 1 rows, 2 seeds.", "share"),
        (0.1, {}, "Scale 0.1: 1 of 1 rows, a tenth of the rounds, 2 seeds.", ""),
        (
            0.1,
            {"given": {"clients": 9}},
            "Scale 0.1: 1 of 1 rows, a tenth of the rounds; --clients=9, 2 seeds.",
            "",
        ),
        (
            1.0,
            {"given": {"clients": 9}, "differences": "9 of 128 clients", "all_rows": 10},
            "Changed: 1 of 10 rows, 9 of 128 clients, 2 seeds.",
            "",
        ),
        (
            1.0,
            {"reduced": True, "differences": "25 of 400 rounds"},
            "Reduced: 1 of 1 rows, 25 of 400 rounds, 2 seeds.",
            "",
        ),
    ],
)
def test_how_far_it_is_the_papers_setting_is_said(results, scale, changes, fact, head):
    folder = write_recipe(results, [row("case1", 50.0)], scale=scale, **changes)
    for seed in (0, 1):
        write_run(folder / "case1" / f"seed-{seed}", [0.4], seed=seed)
    text, _ = rendered(results)
    assert fact in text
    assert (head or "share (paper)") in tables(text)[0][0]


def test_another_task_than_the_papers_is_marked(results):
    folder = write_recipe(results, [row("weak", 50.0)], given={"task": "mnist"})
    write_run(folder / "weak" / "seed-0", [0.4])
    text, _ = rendered(results)
    assert f"real: mnist 3.0.1, in place of the paper's: **{MARK}**" in text


def test_a_row_whose_data_stand_in_for_the_papers_is_marked(results):
    rows = [row("mnist", 50.0), row("letters", 50.0, stands_in=True)]
    folder = write_recipe(results, rows)
    for name in ("mnist", "letters"):
        write_run(folder / name / "seed-0", [0.4], preset="paper")
    text, _ = rendered(results)
    assert f"real: mnist 3.0.1; real: mnist 3.0.1, in place of the paper's: **{MARK}**" in text
    assert [MARK in line["row"] for line in tables(text)[0]] == [False, True]


def test_reduced_settings_are_told_apart_from_the_papers(results):
    write_recipe(results / "whole", [row("case1", 50.0)], scale=1.0)
    write_recipe(results / "less", [row("case1", 50.0)], scale=1.0, reduced=True)
    titles = re.findall("^## (.*)$", rendered(results)[0], re.MULTILINE)
    assert sorted(title.endswith("(reduced)") for title in titles) == [False, True]
