"""The report: figures against numbers computed by hand, marks, escaping, errors."""

import configparser
import json
import os
import pathlib
import re
import shlex
import shutil
import types
from html.parser import HTMLParser

import pytest
from absl import flags

import tasks
from tests.report.report_folders import row, write_recipe, write_run
from tff_partial.cli import run as run_experiment
from tff_partial.cli.report import main
from tff_partial.experiments import config
from tff_partial.experiments import config as experiment_config
from tff_partial.experiments import flags as run_flags
from tff_partial.experiments import run as experiment_run
from tff_partial.report import cells, commands, curves, markdown, page, sections

ROOT = pathlib.Path(__file__).parents[2]
MARK = "not the real set"


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def tables(text):
    """The Markdown tables of a document: a list of (head -> cell) for each."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        lines = [re.split(r" (?<!\\)\| ", line.strip("| ")) for line in block.splitlines()]
        found.append([dict(zip(lines[0], line)) for line in lines[2:]])
    return found


def of(folder):
    found = sections.find([str(folder)])
    return markdown.render(found), page.render(found)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (12.0, "12"), (1234567, "1,235,000"), (0.012345, "0.01235"), (-3.10, "−3.1")],
)
def test_numbers_have_four_significant_digits(value, text):
    assert cells.significant(value) == text


def test_recipe_has_ours_beside_the_papers_with_the_difference(results):
    papers = {"fedavg": 64.01, "weak": 70.5, "late": 50.0, "never": 81.2}
    command = "python run_experiment.py --target_accuracy=0.5"
    folder = write_recipe(results, [row(name, paper, command) for name, paper in papers.items()])
    write_run(folder / "fedavg" / "seed-0", [0.2, 0.6, 0.64, 0.63])
    write_run(folder / "fedavg" / "seed-1", [0.2, 0.5, 0.68, 0.66], seed=1)
    write_run(folder / "weak" / "seed-0", [0.2, 0.3, 0.4, 0.7012])
    write_run(folder / "late" / "seed-0", [0.2, 0.3], rounds=9)
    text, html = of(results)
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
    assert "Best test accuracy; higher is better; scale 0.1:" in text
    assert '<td class="better">+1.99</td>' in html
    assert '<td class="worse">−0.38</td>' in html
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
    compared = tables(of(results)[0])[0]
    assert [line["ours, %"] for line in compared] == ["diverged in round 2", "70.00", "60.00"]
    assert [line["seeds"] for line in compared] == [
        "0 of 1 finished, 1 diverged",
        "1 of 2 finished, 1 diverged",
        "1",
    ]


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
    text, html = of(results)
    (avg, *umf), _ = tables(text)
    assert (avg["ours, rounds"], avg["difference"]) == ("2.5 ± 0.7", "−0.5")
    assert '<td class="better">−0.5</td>' in html
    assert [line["target, %"] for line in umf] == ["50", "60", "90"]
    assert [line["ours, rounds"] for line in umf] == [
        "2.5 ± 0.7",
        "3 (1 of 2 seeds)",
        "not reached",
    ]
    assert [line["difference"] for line in umf] == ["−0.5", "–", "–"]
    assert [line["paper, rounds"] for line in umf] == ["3", "4", "not reached"]


@pytest.mark.parametrize(
    ("seeds", "command"),
    [
        ((), "python run_experiment.py"),
        ((0,), "python run_experiment.py"),
        ((2,), "python run_experiment.py --seed=2"),
        ((0, 1), "for seed in 0 1; do python run_experiment.py --seed=$seed; done"),
    ],
)
def test_the_command_of_a_recipes_row_has_the_seeds_that_were_run(results, seeds, command):
    folder = write_recipe(results, [row("a", 50.0)])
    for seed in seeds:
        write_run(folder / "a" / f"seed-{seed}", [0.5], seed=seed)
    (section,) = sections.find([str(results)])
    assert section.rows[0].command == command


def test_exact_tables_and_analyses_need_no_training(results):
    metric = {"name": "capacity", "label": "capacity", "unit": ""}
    exact = write_recipe(results, [row("weak", 0.16)], "a/exact", metric=metric, kind="exact")
    (exact / "weak" / "seed-0").mkdir(parents=True)
    summary = {"capacity": 0.15, "text": "1,000 / 0.15"}
    (exact / "weak" / "seed-0" / "summary.json").write_text(json.dumps(summary))
    metric = {"name": "similarity", "label": "similarity", "unit": ""}
    rows = [row("figure1")]
    analysis = write_recipe(results, rows, "b/figure1", metric=metric, kind="analysis")
    for seed, (largest, mean) in enumerate(((0.5, 0.25), (0.7, 0.35))):
        place = write_run(analysis / "figure1" / f"seed-{seed}", [], rounds=5, seed=seed)
        lines = ["scheme,steps,block,name,maximum,mean,clients", "none,0,0,conv,0.9,0.9,4"]
        lines.append(f"none,20,0,conv,{largest},{mean},4")
        (place / "similarity.csv").write_text("\n".join(lines))
    text, _ = of(results)
    (capacity,), (compared,), (similarity,) = tables(text)
    assert (capacity["ours"], capacity["difference"]) == ("1,000 / 0.15", "−0.01")
    assert compared["ours"] == "see the table below"
    assert similarity["largest similarity"] == "0.6 ± 0.1"
    assert similarity["mean similarity"] == "0.3 ± 0.1"
    assert (similarity["scheme"], similarity["block"]) == ("none", "conv")


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
    text, html = of(results)
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


def test_runs_from_before_weight_decay_on_decayed_kernels(results):
    write_run(results / "old", [0.4], weight_decay=0.1)
    write_run(results / "new", [0.6], weight_decay=0.1, weight_decay_on="kernels", seed=1)
    write_run(results / "all", [0.8], weight_decay=0.1, weight_decay_on="all")
    text, _ = of(results)
    (lines,) = tables(text)
    assert [(line["weight_decay_on"], line["seeds"]) for line in lines] == [
        ("all", "1"),
        ("kernels", "2"),
    ]
    assert "--weight_decay=0.1 --weight_decay_on=kernels" in text


def test_tiers_and_capacity(results):
    extra = {"clients_strong": 1, "clients_weak": 3, "clients_late": 1}
    extra |= {"train_accuracy_strong": 0.5, "train_accuracy_weak": 0.25}
    tiers = {"tiers": "strong:4,weak:12", "algo": "embracing"}
    for seed in (0, 1):
        place = results / f"tiers-{seed}"
        write_run(place, [0.5], summary={"average_capacity": 0.27}, extra=extra, seed=seed, **tiers)
    text, _ = of(results)
    costs, (strong, weak) = tables(text)
    assert costs[0]["late clients a round"] == "1"
    assert strong["average capacity"] == weak["average capacity"] == "0.27"
    assert (strong["tier"], strong["clients"], strong["clients a round"]) == ("strong", "4", "1")
    assert (weak["tier"], weak["clients"], weak["clients a round"]) == ("weak", "12", "3")
    assert weak["training accuracy, %"] == "25.00 ± 0.00"


def test_drawn_capacities_are_tiers_with_their_share(results):
    extra = {"clients_1/2": 1, "clients_1/16": 3}
    extra |= {"train_accuracy_1/2": 0.5, "train_accuracy_1/16": 0.25}
    write_run(
        results / "a", [0.5], extra=extra, capacities="1/2:0.2,1/4:0.004,1/16:0.8", algo="feddse"
    )
    _, (half, sixteenth) = tables(of(results)[0])
    assert (half["tier"], half["clients"], half["clients a round"]) == (
        "1/2",
        "19.9 % of draws",
        "1",
    )
    assert sixteenth["clients"] == "79.7 % of draws"
    assert sixteenth["training accuracy, %"] == "25.00"


def test_flags_beside_the_scale_are_said_and_tell_recipes_apart(results):
    given = {"clients": 32, "augment": True}
    for folder, partition in ((results / "one", "dirichlet:1"), (results / "other", "iid")):
        changes = {**given, "partition": partition}
        write_recipe(folder, [row("case1", 50.0)], scale=1.0, given=changes)
    text, html = of(results)
    titles = re.findall("^## (.*)$", text, re.MULTILINE)
    assert [title.rpartition(" ")[2] for title in titles] == [
        "(partition=dirichlet:1)",
        "(partition=iid)",
    ]
    flags = "--clients=32 --augment=true --partition=iid"
    assert f"The paper's setting, but for all rows: {flags}." in text
    assert "scale 1" not in text.lower()
    assert "a tenth of the rounds" not in text  # nothing was shrunk by the rule
    assert "higher is better; the paper's setting with changes:" in text
    assert '<td class="text">the paper&#x27;s setting with changes</td>' in html
    assert "share (paper)" in tables(text)[0][0]


@pytest.mark.parametrize(
    ("scale", "given", "fact", "caption", "head"),
    [
        (1.0, {}, "The paper's setting (scale 1).", "the paper's setting", "share"),
        (0.1, {}, "Scale 0.1 of the paper's setting (a tenth of the rounds).", "scale 0.1", ""),
        (
            0.1,
            {"clients": 9},
            "Changed beside the scale, for all rows: --clients=9.",
            "scale 0.1 with changes",
            "",
        ),
    ],
)
def test_how_far_it_is_the_papers_setting_is_said(results, scale, given, fact, caption, head):
    write_recipe(results, [row("case1", 50.0)], scale=scale, given=given)
    text, _ = of(results)
    assert fact in text
    assert f"higher is better; {caption}:" in text
    assert (head or "share (paper)") in tables(text)[0][0]


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


@pytest.mark.parametrize("is_real", [True, False, None])
@pytest.mark.parametrize("data", ["embedded: digits", "real: mnist 3.0.1", "mine"])
def test_what_config_says_of_the_data_counts_and_words_where_it_says_nothing(
    results, is_real, data
):
    write_run(results / "a", [0.5], is_real=is_real, data=data)
    ((section,),) = (sections.find([str(results)]),)
    assert section.is_real == (data.startswith("real") if is_real is None else is_real)


def test_data_that_are_not_the_real_set_are_marked_in_every_table_and_figure(results):
    folder = write_recipe(results, [row("strong", 60.0), row("weak", 50.0)])
    write_run(folder / "strong" / "seed-0", [0.5])
    write_run(folder / "weak" / "seed-0", [0.4], is_real=False, tiers="strong:1,weak:3")
    write_run(results / "single", [0.3], is_real=False)
    text, html = of(results)
    captions = re.findall(r"^(.+):\n\n\|", text, re.MULTILINE)
    assert len(captions) == len(tables(text)) == 4
    assert all(f"**{MARK}**" in caption for caption in captions)
    for table in tables(text):
        for line in table:
            assert (MARK in line["row"]) == ("strong" not in line["row"].split())
    main_part = html.partition("<main>")[2].partition("<script")[0]
    captions = re.findall(r'<p class="caption"[^>]*>(.*?)</p>', main_part)
    figures = re.findall(r"<figcaption>(.*?)</figcaption>", main_part)
    assert (len(captions), len(figures)) == (5, 2)
    assert all(MARK in caption for caption in [*captions[1:], *figures])
    keys = re.findall(r'class="label">(.*?)<small>', main_part)
    assert [MARK in key for key in keys] == [False, True, True]


def test_another_task_than_the_papers_is_marked(results):
    folder = write_recipe(results, [row("weak", 50.0)], given={"task": "mnist"})
    write_run(folder / "weak" / "seed-0", [0.4])
    text, _ = of(results)
    assert f"real: mnist 3.0.1, in place of the paper's: **{MARK}**" in text


def test_a_row_whose_data_stand_in_for_the_papers_is_marked(results):
    rows = [row("mnist", 50.0), row("letters", 50.0, stands_in=True)]
    folder = write_recipe(results, rows)
    for name in ("mnist", "letters"):
        write_run(folder / name / "seed-0", [0.4], preset="paper")
    text, _ = of(results)
    assert f"real: mnist 3.0.1; real: mnist 3.0.1, in place of the paper's: **{MARK}**" in text
    assert [MARK in line["row"] for line in tables(text)[0]] == [False, True]


def test_curves_are_means_over_seeds_with_their_deviation(results):
    write_run(results / "a", ["", 0.4, "", 0.6])
    write_run(results / "b", ["", 0.5, "", 0.9], seed=1)
    (section,) = sections.find([str(results)])
    (curve,) = curves.figure(section)["curves"]
    assert curve["quantities"]["test_accuracy"] == {
        "rounds": [2, 4],
        "seconds": [20, 40],
        "bytes": [3_000_000, 6_000_000],
        "mean": [45.0, 75.0],
        "spread": [7.07, 21.21],
    }


def test_unfinished_seeds_do_not_cut_finished_curves_short(results):
    write_run(results / "a", [0.1, 0.2, 0.3])
    write_run(results / "b", [0.9], seed=1, rounds=3)
    (section,) = sections.find([str(results)])
    (curve,) = curves.figure(section)["curves"]
    assert curve["quantities"]["test_accuracy"]["mean"] == [10.0, 20.0, 30.0]
    assert curve["seeds"] == 1


def test_long_curves_are_thinned_and_values_that_are_no_numbers_left_out(results):
    write_run(results / "a", [i / 1000 for i in range(1000)], extra={"discrepancy": "nan"})
    (section,) = sections.find([str(results)])
    (curve,) = curves.figure(section)["curves"]
    points = curve["quantities"]["test_accuracy"]
    assert len(points["rounds"]) == curves.MOST_POINTS
    assert (points["rounds"][0], points["rounds"][-1]) == (1, 1000)
    assert "discrepancy" not in curve["quantities"]
    page.render([section])


def test_of_many_curves_some_are_shown_at_first_and_a_command_of_all_rows_stands_once(results):
    folder = write_recipe(results, [row(f"row{i}", 1.0) for i in range(20)])
    for i in range(20):
        write_run(folder / f"row{i}" / "seed-0", [0.5])
    text, html = of(results)
    pressed = re.findall(r'class="key" aria-pressed="(\w+)"', html)
    assert pressed == ["true"] * page.FIRST_SHOWN + ["false"] * (20 - page.FIRST_SHOWN)
    assert text.count("python run_experiment.py") == html.count("python run_experiment.py") == 1
    assert "method" not in tables(text)[0][0]  # it stands in the label


HOSTILE = '</script><script>alert("1")</script><img src=x onerror=alert(2)> | `x` **b** & $scripts'


class Elements(HTMLParser):
    """Which elements there are, and with which attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_hostile_text_stays_text(results):
    metric = {"name": "best_test_accuracy", "label": HOSTILE, "unit": HOSTILE}
    hostile = row("a", 1.0, HOSTILE, label=HOSTILE, columns={HOSTILE: f"{HOSTILE}!"})
    hostile["paper"]["text"] = HOSTILE
    names = ("recipe", "title", "paper", "scale_rule")
    changes = {**dict.fromkeys(names, HOSTILE), "notes": [HOSTILE], "metric": metric}
    folder = write_recipe(results, [hostile], **changes)
    write_run(folder / "a" / "seed-0", [0.5], is_real=False, data=HOSTILE, tiers="strong:4")
    text, html = of(results)
    elements = Elements(html).found
    assert [tag for tag, _ in elements].count("script") == 3
    assert not {"img", "b", "link", "iframe", "object"} & {tag for tag, _ in elements}
    assert not any(name.startswith("on") for _, attrs in elements for name in attrs)
    assert not any({"src", "href"} & {*attrs} and tag != "a" for tag, attrs in elements)
    outside = re.sub(r"(?s)(`{3,})\n.*?\n\1", "", text)
    assert "<script" not in outside
    assert "<img" not in outside
    assert {len(line) for table in tables(text) for line in table} == {5, 6}


def test_the_page_asks_for_nothing_and_its_policy_admits_only_its_own_scripts(results):
    write_run(results / "a", [0.5])
    _, html = of(results)
    policy = next(
        a["content"] for _, a in Elements(html).found if "content" in a and "http-equiv" in a
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert len(html) < 100_000
    assert "Leon Sorokin" in html  # the licence asks for it


def test_no_path_of_the_machine_is_shown(results, tmp_path):
    command = (
        f"/opt/venv/bin/python run_experiment.py --data_dir=/srv/data --algo=fedavg "
        f"--output_dir={results}/recipes/x --embracing_record_dir='/var/tmp/r'"
    )
    folder = write_recipe(results, [row("a", 1.0, command)])
    write_run(folder / "a" / "seed-0", [0.5])
    write_run(results / "b", [0.5])
    for text in of(results):
        assert str(tmp_path) not in text
        assert "/srv" not in text
        assert "/opt/venv" not in text
        assert "/var/tmp" not in text
    assert commands.clean(command, [str(results)]) == (
        "python run_experiment.py --data_dir=<folder> --algo=fedavg "
        "--output_dir=results/recipes/x --embracing_record_dir='<folder>'"
    )


def identity(arguments, data):
    values = flags.FlagValues()
    run_experiment.define_flags(values)
    values(["run", *arguments])
    given = run_experiment.settings_of(values)
    created = config.create(**{n: v for n, v in given.items() if n in run_flags.DECIDING})
    return {
        **created.identity(data),
        "device_speeds": list(created.devices.speeds),
        "round_deadline": values.round_deadline,
        "full_model_seconds": values.full_model_seconds,
    }


EXPERIMENTS = {
    "defaults": ["--task=mnist", "--algo=fedavg"],
    "schedule": [
        "--task=cifar10",
        "--algo=fedavg",
        "--learning_rate=0.4~6.1,500:0.04",
        "--augment",
    ],
    "tiers": ["--task=imdb", "--algo=embracing", "--embracing_head_statistics=batch", "--seed=3"],
    "devices": ["--task=mnist", "--algo=fedpmt", "--device_speeds=0.2,1", "--round_deadline=26.5"],
    "bool": ["--task=mnist", "--algo=fedumf", "--fedumf_literal", "--clip_norm=10"],
    "paper": ["--task=mnist", "--algo=feddc", "--preset=paper"],
    "no target": ["--task=mnist", "--algo=fedavg", "--target_accuracy=0"],
}


@pytest.mark.parametrize("arguments", EXPERIMENTS.values(), ids=EXPERIMENTS.keys())
def test_the_command_of_a_single_run_gives_the_same_settings(results, arguments):
    if "--preset=paper" in arguments:
        task = tasks.TASKS["mnist"]
        other = next(name for name in task.papers if name != task.default_paper)
        arguments = [*arguments, f"--paper={other}"]
    data = types.SimpleNamespace(description="real: set 1.0")
    settings = identity(arguments, data)
    write_run(results / "a", [0.5], **settings)
    (section,) = sections.find([str(results)])
    python, script, *repeated = shlex.split(section.rows[0].command)
    assert (python, script) == ("python", "run_experiment.py")
    assert identity(repeated, data) == settings
    assert "--data=tfds" in repeated
    assert "--data_dir=<folder>" in repeated


@pytest.mark.parametrize(
    ("preset", "paper", "source", "flag"),
    [
        ("paper", "mine", "FedUMF, section 5", "--paper=mine"),
        ("paper", None, "FedUMF, appendix A", "--paper=fedumf_appendix"),  # of an older run
        ("paper", None, "Somebody, table 1", None),
        ("demo", None, "", None),
    ],
)
def test_the_command_names_the_paper_of_a_preset(results, preset, paper, source, flag):
    folder = write_run(results / "a", [0.5], preset=preset, source=source)
    config = json.loads((folder / "config.json").read_text())
    config["execution"]["paper"] = paper
    (folder / "config.json").write_text(json.dumps(config))
    (section,) = sections.find([str(results)])
    words = shlex.split(section.rows[0].command)
    assert [word for word in words if word.startswith("--paper=")] == [*filter(None, [flag])]


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


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


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


def test_numbers_that_are_none_are_left_out(results):
    odd = {"simulated_seconds": "inf", "discrepancy": "1e308", "test_accuracy_all_clients": "nan"}
    for seed, accuracy in enumerate(["inf", "1e308", "nan", "-1e308", 0.5]):
        folder = write_run(results / f"{seed}", [accuracy], seed=seed, summary={"rounds": 1e308})
        head, line = (folder / "metrics.csv").read_text().splitlines()
        names = [*head.split(",")[:-1], *odd]
        values = [*line.split(",")[:-1], *odd.values()]
        write(folder / "metrics.csv", f"{','.join(names)}\n{','.join(values)}\n")
    text, html = of(results)
    assert "| 50.00 |" in text
    assert "inf" not in text + re.search(r'type="application/json".*?</script>', html)[0]


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


def test_a_run_that_went_on_has_its_figures_of_now(results):
    summary = {"best_test_accuracy": 0.1, "rounds": 1, "rounds_to_target": None}
    write_run(results / "a", [0.1, 0.6], summary=summary)
    text, _ = of(results)
    ((line,),) = tables(text)
    assert (line["best accuracy, %"], line["rounds to target"]) == ("60.00", "2")


def test_every_file_of_the_page_is_part_of_the_package():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    (pattern,) = config["options.package_data"]["tff_partial.report"].split()
    assets = pathlib.Path(page.ASSETS)
    assert {p.name for p in assets.parent.glob(pattern)} == {p.name for p in assets.iterdir()}
    version = re.search(r"\(v([\d.]+)\)", (assets / "uPlot.iife.min.js").read_text())[1]
    assert f"version {version}" in (assets / "README.md").read_text()


@pytest.mark.usefixtures("keep_runtime")
def test_config_of_a_run_says_whether_its_data_are_real(tmp_path):
    settings = {"task": "mnist", "algo": "fedavg", "data": "embedded", "model": "softmax"}
    experiment_run.prepare(**settings, output_dir=str(tmp_path)).lock.close()
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["execution"]["data_is_real"] is False
    assert "data_is_real" not in config["settings"]
    created = experiment_config.create("mnist", "fedavg", preset="paper", paper="fedpmt")
    assert (config["execution"]["paper"], created.paper) == (None, "fedpmt")


def test_documented_results_are_what_the_report_makes_of_their_runs():
    found = sections.add_remarks(
        sections.find([str(ROOT / "docs" / "runs")]), str(ROOT / "docs" / "remarks")
    )
    introduction = sections.read_remarks(str(ROOT / "docs" / "remarks"), "introduction")
    assert (ROOT / "docs" / "results.md").read_text() == markdown.render(found, introduction)
