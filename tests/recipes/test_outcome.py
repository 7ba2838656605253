"""What runs of a recipe came to."""

import types

from tests.recipes.planning import fake_run, plan, starts
from tff_partial.recipes import outcome as recipe_results
from tff_partial.recipes import plan as recipe_plan
from tff_partial.recipes import runner, schema
from tff_partial.similarity import tables


def test_rows_that_diverge_are_marked_and_not_run_again(tmp_path, capsys, monkeypatch):
    runs = [fake_run(tmp_path, "a", message="diverged"), fake_run(tmp_path, "b")]
    metric = schema.Metric("rounds", "rounds", "", None)
    recipe = types.SimpleNamespace(name="own/tiny", kind="runs", metric=metric)
    fake = types.SimpleNamespace(
        recipe=recipe, runs=runs, rows=[run.row for run in runs], folder=tmp_path, document={}
    )
    monkeypatch.setattr(recipe_plan, "create", lambda options: fake)
    monkeypatch.setattr(runner.document, "write", lambda folder, document: None)
    for _ in range(2):
        assert runner.main(types.SimpleNamespace(given={})) == 1
        captured = capsys.readouterr()
        lines = captured.out.splitlines()
        assert lines[-2].split() == ["a", *["diverged", "in", "round", "2"], "1"]
        assert lines[-1].split() == ["b", "2", "1"]
        assert "diverged: a seed 0: in round 2; it is not run again" in captured.err
        assert "failed: " not in captured.err
        assert [len(starts(run)) for run in runs] == [1, 1]
    with_others = recipe_results._ours(metric, runs)
    assert with_others == "2 (1 of 2 diverged)"


def test_rounds_to_a_target_on_a_sample_say_so(tmp_path):
    given = {"data": "embedded", "output_dir": str(tmp_path), "eval_examples": 50}
    chosen = plan("fedumf/table1", 0.1, **given)
    run, metric = chosen.runs[0], chosen.recipe.metric
    run.folder.mkdir(parents=True)
    head = "round,test_accuracy,sampled_test_accuracy,test_examples"
    (run.folder / "metrics.csv").write_text(f"{head}\n1,,0.1,50\n2,,1.0,50\n")
    assert recipe_results._figure(metric, [run]).endswith(": 2 (on 50 test examples)")


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
