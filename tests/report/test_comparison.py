"""Ours beside the paper's, with numbers computed by hand."""

from tests.report.report_folders import MARK, rendered, row, tables, write_recipe, write_run


def test_recipe_has_ours_beside_the_papers_with_the_difference(results):
    papers = {"fedavg": 64.01, "weak": 70.5, "late": 50.0, "never": 81.2}
    command = "python run_experiment.py --target_accuracy=0.5"
    folder = write_recipe(results, [row(name, paper, command) for name, paper in papers.items()])
    write_run(folder / "fedavg" / "seed-0", [0.2, 0.6, 0.64, 0.63])
    write_run(folder / "fedavg" / "seed-1", [0.2, 0.5, 0.68, 0.66], seed=1)
    write_run(folder / "weak" / "seed-0", [0.2, 0.3, 0.4, 0.7012])
    write_run(folder / "late" / "seed-0", [0.2, 0.3], rounds=9)
    text, html = rendered(results)
    compared, costs = tables(text)
    assert compared[0] == {
        "row": "fedavg",
        "paper, %": "64.01",
        "ours, %": "66.00 ± 2.83",
        "difference": "+1.99",
        "seeds": "2",
        "share (paper)": "50 %",
    }
    assert [line["ours, %"] for line in compared[1:]] == ["70.12", "2 of 9 rounds", "not run"]
    assert [line["difference"] for line in compared[1:]] == ["−0.38", "–", "–"]
    assert [line["seeds"] for line in compared[1:]] == ["1", "0 of 1 finished", "0"]
    first = {
        "rounds to target": "2 ± 0",
        "simulated s to target": "20 ± 0",
        "MB to target": "3 ± 0",
    }
    assert {**costs[0], **first} == costs[0]
    assert costs[0]["final accuracy, %"] == "64.50 ± 2.12"
    assert costs[3]["rounds"] == "not run"
    assert "scale 0.1" in text.lower()
    assert "a tenth of the rounds" in text
    assert "Best test accuracy; higher is better:" in text
    # At another scale than the paper's, neither is better or worse.
    assert '<td data-head="difference">+1.99</td>' in html
    assert '<td data-head="difference">−0.38</td>' in html
    assert (
        MARK
        not in html.partition("<style>")[0] + html.partition("<main>")[2].partition("<script")[0]
    )


def test_rows_that_diverged_are_marked(results):
    folder = write_recipe(results, [row("all", 64.0), row("one", 70.0), row("later", 70.0)])
    diverged = {"summary": {"diverged_at_round": 2}, "rounds": 4}
    write_run(folder / "all" / "seed-0", [0.2, 0.1], **diverged)
    write_run(folder / "one" / "seed-0", [0.2, 0.3, 0.4, 0.7])
    write_run(folder / "one" / "seed-1", [0.9, 0.1], seed=1, **diverged)
    # It went on past that round, with another version.
    write_run(folder / "later" / "seed-0", [0.2, 0.3, 0.4, 0.6], **diverged)
    compared = tables(rendered(results)[0])[0]
    assert [line["ours, %"] for line in compared] == ["diverged in round 2", "70.00", "60.00"]
    assert [line["seeds"] for line in compared] == [
        "0 of 1 finished, 1 diverged",
        "1 of 2 finished, 1 diverged",
        "1",
    ]


def test_rounds_to_a_target_on_a_sample_say_so(results):
    metric = {"name": "rounds_to_target", "label": "rounds", "unit": "rounds"}
    folder = write_recipe(results, [row("avg", 3)], metric=metric)
    extra = {"sampled_test_accuracy": 0.75, "test_examples": 1000}
    write_run(folder / "avg" / "seed-0", ["", ""], extra=extra, eval_examples=1000)
    ((compared,), _) = tables(rendered(results)[0])
    assert compared["ours, rounds"] == "1 (on 1,000 test examples)"


def test_fewer_is_better_for_rounds_and_targets_of_a_row_are_lines(results):
    metric = {
        "name": "rounds_to_target",
        "label": "rounds",
        "unit": "rounds",
        "higher_is_better": False,
    }
    targets = [{"target": t, "value": v} for t, v in ((0.5, 3), (0.6, 4), (0.9, None))]
    several = row("umf", paper={"value": None, "spread": None, "text": "", "targets": targets})
    folder = write_recipe(results, [row("avg", 3), several], metric=metric, scale=1.0)
    for seed, accuracies in enumerate(([0.2, 0.5, 0.6], [0.2, 0.4, 0.5])):
        for name in ("avg", "umf"):
            write_run(folder / name / f"seed-{seed}", accuracies, seed=seed)
    text, html = rendered(results)
    (avg, *umf), _ = tables(text)
    assert (avg["ours, rounds"], avg["difference"]) == ("2.5 ± 0.7", "−0.5")
    assert '<td class="better" data-head="difference">−0.5</td>' in html
    assert [line["target, %"] for line in umf] == ["50", "60", "90"]
    assert [line["ours, rounds"] for line in umf] == [
        "2.5 ± 0.7",
        "3 (1 of 2 seeds)",
        "not reached",
    ]
    assert [line["difference"] for line in umf] == ["−0.5", "–", "–"]
    assert [line["paper, rounds"] for line in umf] == ["3", "4", "not reached"]


def test_other_data_than_the_papers_have_no_difference(results):
    folder = write_recipe(results, [row("same", 50.0), row("other", 50.0, stands_in=True)])
    for name in ("same", "other"):
        write_run(folder / name / "seed-0", [0.4])
    compared = tables(rendered(results)[0])[0]
    assert [line["ours, %"] for line in compared] == ["40.00", "40.00"]
    assert [line["difference"] for line in compared] == ["−10.00", "–"]
