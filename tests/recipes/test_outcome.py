"""What runs of a recipe came to."""

import types

from tests.recipes.planning import fake_run, starts
from tff_partial.recipes import outcome as recipe_results
from tff_partial.recipes import plan as recipe_plan
from tff_partial.recipes import runner, schema
from tff_partial.results.schema import RecipeResults
from tff_partial.similarity import tables


def test_rows_that_diverge_are_marked_and_not_run_again(tmp_path, capsys, monkeypatch):
    runs = [fake_run(tmp_path, "a", message="diverged"), fake_run(tmp_path, "b")]
    rows = tuple(run.row for run in runs)
    metric = schema.Metric("rounds", "rounds", "", None)
    recipe = types.SimpleNamespace(name="own/tiny", kind="runs", metric=metric)
    document = RecipeResults("own/tiny", "Tiny", "Nobody", "runs", metric, rows)
    plan = types.SimpleNamespace(
        recipe=recipe, runs=runs, rows=rows, folder=tmp_path, merge=lambda: document
    )
    monkeypatch.setattr(recipe_plan, "create", lambda options: plan)
    for _ in range(2):
        assert runner.main(types.SimpleNamespace(given={})) == 1
        captured = capsys.readouterr()
        lines = captured.out.splitlines()
        table = [line.split() for line in lines if line[:2] in ("a ", "b ")]
        assert table[0][:6] == ["a", "–", "diverged", "in", "round", "2"]
        assert table[1][:3] == ["b", "–", "2"]
        assert "diverged: a seed 0: in round 2; it is not run again" in captured.err
        assert "failed: " not in captured.err
        assert [len(starts(run)) for run in runs] == [1, 1]


def test_analyses_count_the_rounds_of_every_scheme_and_print_what_they_found(tmp_path):
    options = recipe_plan.Options(
        "embracing/figure3", 0.1, given={"data": "embedded", "output_dir": str(tmp_path)}
    )
    created = recipe_plan.create(options)
    [run] = created.runs
    assert (run.rounds, run.total_rounds) == (10, 30)
    for scheme, rounds in (("second_half", 10), ("channel", 4)):
        (run.folder / scheme).mkdir(parents=True)
        (run.folder / scheme / "metrics.csv").write_text("round\n" + "1\n" * rounds)
    assert runner._rounds_done(run) == 14
    assert "|" not in recipe_results.similarities(created)
    rows = [
        dict(zip(tables.COLUMNS, (scheme, 20, 0, "conv", 0.5, 0.25, 8))) for scheme in run.schemes
    ]
    tables.write_csv(str(run.folder / "similarity.csv"), rows)
    assert tables.read_csv(str(run.folder / "similarity.csv")) == rows
    assert runner._rounds_done(run) == 30
    printed = recipe_results.similarities(created)
    assert "cifar10 seed 0\n\n| block | second_half | channel | first_half |" in printed
    assert "| 0 conv | 0.500 | 0.500 | 0.500 |" in printed
