"""Recipes as data: their format, the runs they describe, and how they shrink."""

import dataclasses
import math
import re

import pytest
from absl import flags
from hypothesis import given, settings
from hypothesis import strategies as st

import tasks
from tff_partial import tiers
from tff_partial.cli import run as run_experiment
from tff_partial.cli import similarity
from tff_partial.core import schedules
from tff_partial.experiments import config
from tff_partial.experiments import flags as run_flags
from tff_partial.recipes import catalog, exact, schema
from tff_partial.recipes import plan as recipe_plan
from tff_partial.recipes import scale as recipe_scale
from tff_partial.results.schema import Target
from tff_partial.similarity import study

TABLES = {
    "embracing": [*(f"table{n}" for n in range(1, 11)), "figure1", "figure3", "figure4"],
    "partial_averaging": [f"table{n}" for n in range(1, 7)],
    "fedumf": ["table1", "table2", "table3", "table4", "tableA1", "tableA2"],
    "feddse": [*(f"table{n}" for n in (1, 2, 4, 5, 6, 7)), "figure5"],
    "fedpmt": ["table2", "table3", "figure2"],
}
ALL = [f"{paper}/{name}" for paper, stems in TABLES.items() for name in stems]
TRAINED = [name for name in ALL if catalog.load(name).kind != "exact"]


def plan(name, scale=1.0, only="", seeds=1, **given):
    return recipe_plan.create(recipe_plan.Options(name, scale, only, seeds, given))


def parsed(arguments):
    """The experiment that a run's own process makes of its flags."""
    values = flags.FlagValues()
    run_experiment.define_flags(values)
    values(arguments)
    settings = run_experiment.settings_of(values)
    return config.create(**{n: v for n, v in settings.items() if n in run_flags.DECIDING})


def test_every_table_has_its_recipe_and_every_recipe_is_listed():
    assert sorted(catalog.names()) == sorted(ALL)
    listed = run_experiment.list_everything()
    assert all(f"  {name} " in listed for name in ALL)
    order = catalog.names()
    assert order.index("embracing/table2") < order.index("embracing/table10")


@pytest.mark.parametrize("name", ALL)
def test_recipe_says_what_it_is_and_has_numbers_or_words_for_every_row(name):
    recipe = catalog.load(name)
    words = re.search(r"(table|figure)([A-Z]?\d+)", name)
    number = {"fedpmt/table2": "II", "fedpmt/table3": "III"}.get(name, words[2])
    assert recipe.title.lower().startswith(f"{words[1]} {number}:".lower())
    for row in recipe.rows:
        assert row.paper.text
        assert row.columns
        if recipe.metric.unit == "%" and row.paper.value is not None:
            assert 1 < row.paper.value < 100
            assert row.paper.spread is None or 0 < row.paper.spread < 4
            assert row.paper.text.startswith(str(row.paper.value)[:4])


@pytest.mark.parametrize("name", TRAINED)
def test_flags_of_every_row_exist(name):
    values = flags.FlagValues()
    run_experiment.define_flags(values)
    for row in catalog.load(name).rows:
        assert set(row.settings) <= set(values), row.id


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize(("scale", "data"), [(1.0, "tfds"), (0.1, "embedded")])
def test_every_run_builds_and_its_flags_say_all_of_it(name, scale, data):
    found = plan(name, scale, data=data)
    assert [run.row for run in found.runs] == list(catalog.load(name).rows)
    for run in found.runs:
        paper = config.create(**{**run.row.settings, "preset": "paper"})
        wanted = recipe_scale.scaled(paper.settings, scale, {}, data == "embedded")
        built = dataclasses.asdict(run.experiment.settings)
        for field, value in dataclasses.asdict(wanted).items():
            assert field == "source" or built[field] == value, (run.row.id, field)
        assert run.experiment.algo == paper.algo
        assert run.experiment.params == paper.params
        if run.figure is None:
            assert parsed(run.arguments) == run.experiment


@pytest.mark.parametrize("name", ["fedumf/tableA1", "fedumf/tableA2"])
def test_fedumfs_appendix_clips_and_decays_as_feddcs_code(name):
    for run in plan(name, data="tfds").runs:
        local = config.create_params(run.experiment).local
        assert (local.clip_norm, local.weight_decay, local.weight_decay_on) == (10, 1e-3, "all")
        assert local.momentum == 0


@pytest.mark.parametrize("name", [f"feddse/{name}" for name in TABLES["feddse"] if "7" not in name])
def test_feddses_clients_decay_as_heterofls_code(name):
    for run in plan(name, data="tfds").runs:
        local = config.create_params(run.experiment).local
        assert (local.clip_norm, local.weight_decay, local.weight_decay_on) == (1, 5e-4, "all")


@pytest.mark.parametrize("name", [f"partial_averaging/table{n}" for n in range(1, 7)])
def test_partial_averagings_photographs_are_augmented(name):
    for run in plan(name, data="tfds").runs:
        assert run.experiment.augment == (run.experiment.task.name in ("cifar10", "cifar100"))
        assert run.experiment.settings.weight_decay_on == "kernels"


def test_svhns_epochs_count_the_extra_images():
    epoch = (73_257 + 531_131) / (128 * 64)
    for run in plan("partial_averaging/table1", only="svhn", data="tfds").runs:
        chosen = run.experiment.settings
        rate = schedules.create(chosen.learning_rate)
        assert chosen.rounds == round(160 * epoch / chosen.local_steps)
        assert [at for at, _ in rate.changes] == [
            round(n * epoch / chosen.local_steps) for n in (80, 120)
        ]
        assert rate.warm_up == pytest.approx(5 * epoch / chosen.local_steps, rel=1e-3)


@pytest.mark.parametrize("name", ["embracing/figure1", "embracing/figure3"])
@pytest.mark.parametrize(("scale", "data"), [(1.0, "tfds"), (0.1, "embedded")])
def test_analyses_are_what_their_command_makes_of_the_flags(name, scale, data):
    for run in plan(name, scale, data=data).runs:
        flag, module, *words = run.arguments
        assert (flag, module) == ("-m", "tff_partial.similarity")
        flags = vars(similarity.parse(words))
        built = study.create_experiment(2, **{n: flags[n] for n in study.SETTINGS}).settings
        wanted = run.experiment.settings
        # It measures as often as it says itself, and knows no targets.
        for field in {*run_flags.SETTINGS} - {"eval_every", "target_accuracy"}:
            assert getattr(built, field) == getattr(wanted, field), field
        assert wanted.rounds == (100 if scale == 1 else 10)


@pytest.mark.parametrize("name", [name for name in ALL if name not in TRAINED])
def test_exact_tables_have_the_rows_of_their_recipe(name):
    recipe = catalog.load(name)
    ours = exact.TABLES[recipe.source]()
    assert set(ours) == {row.id for row in recipe.rows}
    if name in ("embracing/table1", "embracing/table10"):
        assert {row.id: row.paper.text for row in recipe.rows} == {
            row: text for row, (_, text) in ours.items()
        }


def test_numbers_are_read_with_their_spread_and_targets():
    rows = {row.id: row for row in catalog.load("embracing/table3").rows}
    assert rows["case7"].paper == schema.Published(76.98, 1.6, "76.98 ± 1.6")
    assert rows["case7"].columns["average capacity"] == "0.27"
    rows = {row.id: row for row in catalog.load("fedumf/table1").rows}
    paper = rows["eta0.01-c0.1-fedavg"].paper
    assert (paper.value, paper.spread) == (69.0, None)
    assert paper.targets[0] == Target(0.92, 23.0)
    assert paper.targets[-1] == Target(0.97, None)
    assert paper.text.endswith("97 %: *")


def test_data_that_stand_in_for_the_papers_are_noted():
    for name in ("fedumf/tableA1", "fedumf/tableA2"):
        only = "c15-mnist-iid-fedavg,c15-emnist-iid-fedavg"
        rows = plan(name, only=only, data="tfds").document.rows
        assert [row.stands_in for row in rows] == [False, True]


def test_combinations_of_axes_have_their_own_settings():
    rows = {row.id: row.settings for row in catalog.load("partial_averaging/table3").rows}
    assert rows["cifar10-active25-dir0.1-periodic"]["learning_rate"].startswith("0.2~")
    assert rows["cifar10-active25-dir1-periodic"]["learning_rate"].startswith("0.4~")
    assert rows["imdb-active50-dir1-partial"]["local_steps"] == 11
    assert "imdb-active50-dir0.1-partial" not in rows
    assert "case1-width" not in {row.id for row in catalog.load("embracing/table6").rows}


def test_only_selects_ids_and_whole_words_of_them():
    recipe = catalog.load("embracing/table6")

    def chosen(only):
        return [row.id for row in catalog.select(recipe, only)]

    assert chosen("case1") == ["case1-embracing"]
    assert chosen("case5,case7-width") == ["case5-width", "case5-embracing", "case7-width"]
    assert len(chosen("width")) == 9
    assert len(chosen("")) == len(recipe.rows)
    with pytest.raises(ValueError, match="only must name rows of .*Received: only=case11"):
        catalog.select(recipe, "case5,case11")


GOOD = {
    "title": "t",
    "paper": "p",
    "kind": "runs",
    "metric": {
        "name": "best_test_accuracy",
        "label": "l",
        "unit": "%",
        "higher_is_better": True,
    },
    "rows": [{"id": "a", "label": "a", "paper": "1.5 ± 0.5"}],
}
AXIS = {"column": "c", "values": [{"id": "x", "label": "x"}]}
BAD = {
    "no title": ({"title": None}, "must have title"),
    "unknown key": ({"row": []}, "have no keys but"),
    "wrong type": ({"notes": "n"}, "notes must be list"),
    "kind": ({"kind": "run"}, "kind must be one of runs, exact, analysis"),
    "metric": ({"metric": {**GOOD["metric"], "name": "accuracy"}}, "name must be one of best"),
    "direction": (
        {"metric": {k: v for k, v in GOOD["metric"].items() if k != "higher_is_better"}},
        "say whether higher_is_better",
    ),
    "no rows": ({"rows": []}, "must have rows"),
    "twice": ({"rows": GOOD["rows"] * 2}, "an id of its own"),
    "id": ({"rows": [{"id": "../a", "label": "a", "paper": "1"}]}, "have an id of small"),
    "no number": ({"rows": [{"id": "a", "label": "a"}]}, "must have paper"),
    "number": ({"rows": [{"id": "a", "label": "a", "paper": [1.5]}]}, "number as text"),
    "stand-in": (
        {"rows": [{"id": "a", "label": "a", "paper": "1", "stands_in": "yes"}]},
        "stands_in must be bool",
    ),
    "rows and axes": ({"axes": [AXIS], "numbers": {}}, "either rows or axes"),
    "axes alone": ({"rows": None, "axes": [AXIS]}, "either rows or axes"),
    "length": ({"rows": None, "axes": [AXIS], "numbers": {"": ["1", "2"]}}, "be a list of 1"),
    "combination": ({"rows": None, "axes": [AXIS], "numbers": {"y": ["1"]}}, "combinations of"),
    "source": ({"source": "s"}, "have a source unless"),
    "targets": (
        {"rows": [{"id": "a", "label": "a", "paper": ["1"], "targets": [0.5, 0.6]}]},
        "number for each of the targets",
    ),
    "own target": (
        {"rows": [{"id": "a", "label": "a", "paper": ["1"], "targets": [0.5]}]},
        "have a target_accuracy of",
    ),
}


def test_the_smallest_recipe():
    recipe = schema.parse("x/y", GOOD)
    assert recipe.rows[0].paper == schema.Published(1.5, 0.5, "1.5 ± 0.5")


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD.keys())
def test_what_does_not_keep_to_the_format_is_an_error(change, message):
    data = {name: value for name, value in {**GOOD, **change}.items() if value is not None}
    with pytest.raises(ValueError, match=message) as error:
        schema.parse("x/y", data)
    assert str(error.value).startswith("x/y.toml")
    assert "\n" not in str(error.value)


def test_files_that_are_no_recipe(tmp_path):
    (tmp_path / "broken.toml").write_text("title = ")
    with pytest.raises(ValueError, match=r"broken.toml must be TOML"):
        catalog.load(str(tmp_path / "broken.toml"))
    for name in ("embracing/table99", "../setup", "embracing", str(tmp_path / "none.toml")):
        with pytest.raises(ValueError, match="recipe must be one of"):
            catalog.load(name)


EMBRACING = tasks.TASKS["cifar10"].papers["embracingfl"]


@st.composite
def paper_settings(draw):
    clients = draw(st.integers(1, 300))
    cuts = sorted(draw(st.lists(st.integers(0, clients), min_size=2, max_size=2)))
    counts = (cuts[0], cuts[1] - cuts[0], clients - cuts[1])
    rounds = draw(st.integers(1, 3000))
    at = draw(st.integers(1, 3000))
    return dataclasses.replace(
        EMBRACING,
        clients=clients,
        clients_per_round=draw(st.integers(1, clients)),
        tiers=",".join(f"{name}:{count}" for name, count in zip(tiers.NAMES, counts)),
        rounds=rounds,
        eval_every=draw(st.integers(1, 50)),
        learning_rate=f"0.4*0.999~2.5,{at}:0.04",
    )


@settings(max_examples=200, deadline=None)
@given(paper_settings(), st.floats(0.001, 1.0), st.booleans())
def test_scaled_settings_keep_to_the_rule(paper, scale, is_embedded):
    small = recipe_scale.scaled(paper, scale, {}, is_embedded)
    assert small.rounds == max(1, round(scale * paper.rounds))
    expected = max(min(8, paper.clients), round(math.sqrt(scale) * paper.clients))
    assert small.clients == (min(32, expected) if is_embedded else expected)
    assert sum(tier.count for tier in tiers.parse(small.tiers)) == small.clients
    assert min(2, paper.clients_per_round) <= small.clients_per_round <= small.clients
    assert small.clients_per_round <= paper.clients_per_round
    if paper.clients_per_round == paper.clients:
        assert small.clients_per_round == small.clients
    assert small.eval_every <= paper.eval_every
    assert (small.local_steps, small.batch_size) == (paper.local_steps, paper.batch_size)
    before, after = (schedules.create(s.learning_rate) for s in (paper, small))
    factor = small.rounds / paper.rounds
    assert after.changes[0][0] == pytest.approx(factor * before.changes[0][0], rel=1e-3)
    assert after.decay**small.rounds == pytest.approx(before.decay**paper.rounds, rel=1e-3)


@settings(max_examples=50, deadline=None)
@given(paper_settings())
def test_scale_1_is_the_paper(paper):
    assert recipe_scale.scaled(paper, 1.0, {}) == paper


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 400), st.integers(1, 400), st.floats(0.001, 1.0))
def test_what_the_user_gives_is_followed(clients, rounds, scale):
    wanted = {"clients": clients, "rounds": rounds}
    small = recipe_scale.scaled(EMBRACING, scale, wanted)
    assert (small.clients, small.rounds) == (clients, rounds)
    assert small.clients_per_round == min(clients, max(2, round(clients / 4)))
    assert sum(tier.count for tier in tiers.parse(small.tiers)) == clients


def test_only_tiers_and_all_of_them_shrink_together():
    row = next(row for row in catalog.load("embracing/table2").rows if row.id == "weak32-embracing")
    paper = config.create(**{**row.settings, "preset": "paper"}).settings
    assert (paper.only_tiers, paper.clients_per_round) == ("strong,weak", 48)
    small = recipe_scale.scaled(paper, 0.1, {})
    assert small.tiers == "strong:5,weak:10,moderate:25"
    assert small.clients_per_round == 15


@pytest.mark.parametrize("scale", [0.0, -1.0, 1.5, math.nan])
def test_scale_out_of_range(scale):
    with pytest.raises(ValueError, match=r"scale must be in \(0, 1\]"):
        plan("embracing/table3", scale, data="embedded")


def test_given_flags_apply_to_every_row_and_are_noted():
    found = plan(
        "embracing/table3",
        0.1,
        only="case5,case10",
        data="embedded",
        rounds=20,
        partition="dirichlet:1",
        task="mnist",
        clients=16,
        model="mlp_200",
        embracing_record_dir="/somewhere",
        client_parallelism=1,
    )
    for run in found.runs:
        built = run.experiment.settings
        assert (built.rounds, built.partition, built.clients) == (20, "dirichlet:1", 16)
        assert run.experiment.task.name == "mnist"
        assert built.learning_rate == "0.4,16:0.04,18:0.004"
        assert "--client_parallelism=1" in run.arguments
    assert found.runs[1].experiment.settings.tiers == "strong:2,moderate:2,weak:12"
    given = {"rounds": 20, "partition": "dirichlet:1", "task": "mnist", "clients": 16}
    assert found.document.given == {**given, "model": "mlp_200"}
    assert "Embedded data stand for mnist, not the real set." in found.document.notes
    assert "/somewhere" not in str(found.document)
    assert "parallelism" not in str(found.document)


def test_hyperparameters_are_given_to_their_own_algorithm_only():
    found = plan("fedumf/table1", 0.1, data="embedded", fedumf_alpha=0.3)
    for run in found.runs:
        expected = {"alpha": 0.3} if run.experiment.algo == "fedumf" else {}
        assert run.experiment.params == expected


def test_a_preset_has_no_target_for_a_recipe_without_one():
    [run] = plan("embracing/table3", 0.1, only="case1", data="embedded").runs
    assert tasks.TASKS["cifar10"].demo.target_accuracy == 0.6
    assert run.experiment.settings.target_accuracy is None
    assert "--target_accuracy=0" in run.arguments
    [run] = plan("fedumf/tableA1", only="c15-mnist-iid-fedavg", data="tfds").runs
    assert run.experiment.settings.target_accuracy == 0.95
    options = {"only": "c15-mnist-iid-fedavg", "data": "tfds", "target_accuracy": 0.0}
    [run] = plan("fedumf/tableA1", **options).runs
    assert run.experiment.settings.target_accuracy is None


def test_commands_are_short_on_real_data_and_name_no_folder(tmp_path):
    found = plan("embracing/table3", 0.1, only="case1", data="tfds", data_dir=str(tmp_path))
    assert found.document.rows[0].command == (
        "python run_experiment.py --task=cifar10 --algo=embracing --preset=paper "
        "--paper=embracingfl --clients=40 --clients_per_round=10 --rounds=100 "
        "--learning_rate=0.4,80:0.04,90:0.004 --tiers=strong:40 --eval_every=2 --data=tfds "
        "--data_dir=<folder>"
    )
    assert f"--data_dir={tmp_path}" in found.runs[0].arguments
    assert str(found.runs[0].folder).endswith("embracing/table3/scale-0.1/case1/seed-0")


REFUSED = {
    "algorithm": ({"algo": "fedavg"}, "must not be given with recipe"),
    "task": ({"task": "minst"}, "task must be one of"),
    "model that does not fit": ({"task": "imdb"}, "model must take token inputs"),
    "data": ({"data": "web"}, "data must be one of"),
    "no real data": ({"scale": 1.0, "data_dir": "nowhere"}, "scale=1 must have the real data"),
    "cohort": ({"clients_per_round": 500}, "clients_per_round must be at most"),
    "hyperparameter": ({"embracing_head_statistics": "none"}, "head_statistics"),
    "hyperparameter of no row": ({"fedumf_alpha": 0.5}, "algorithm of the rows, embracing. Rec"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_run_is_an_error_before_anything_is_written(change, message, tmp_path):
    options = {"scale": 0.1, "data": "auto", "data_dir": str(tmp_path), **change}
    with pytest.raises(ValueError, match=message):
        plan("embracing/table3", output_dir=str(tmp_path / "out"), **options)
    assert list(tmp_path.iterdir()) == []


def test_flags_that_would_have_no_effect_are_refused():
    with pytest.raises(ValueError, match=r"exactly, must be given no flags .*\['--rounds'\]"):
        plan("embracing/table1", rounds=5, seed=1)
    with pytest.raises(ValueError, match=r"an analysis, must .*\['--clip_norm'\]"):
        plan("embracing/figure1", 0.1, data="embedded", clip_norm=1.0, width=0.5)
    with pytest.raises(ValueError, match="algorithm of the rows, fedavg"):
        plan("fedumf/table1", 0.1, only="fedavg", data="embedded", fedumf_alpha=0.5)
    assert plan("embracing/table1", output_dir="elsewhere", seed=1).runs == ()
    [run] = plan("embracing/figure3", 0.1, data="embedded", width=0.5, momentum=0.5).runs
    assert {"--width=0.5", "--momentum=0.5"} <= {*run.arguments}


def test_a_task_without_writers_needs_another_partition():
    options = {"only": "case1", "data": "embedded", "task": "mnist", "model": "mlp_200"}
    with pytest.raises(ValueError, match="partition must be given, .* for mnist, .*'natural:2'"):
        plan("embracing/table4", 0.1, **options)
    [run] = plan("embracing/table4", 0.1, partition="iid", **options).runs
    assert run.experiment.settings.partition == "iid"


def test_tasks_say_whether_they_have_writers():
    for task in tasks.TASKS.values():
        if task.load_embedded is not None:
            assert bool(task.writers) == (task.load_embedded(0).writers is not None), task.name


def test_the_document_lists_every_recipe_with_its_number_of_runs():
    text = (catalog.FOLDER.parent / "docs" / "reproducing.md").read_text()
    for name in ALL:
        recipe = catalog.load(name)
        count = "exact" if recipe.kind == "exact" else len(recipe.rows)
        assert re.search(rf"^\| `{name}` \| [^|]+ \| {count} \|", text, re.MULTILINE), name


def test_the_example_of_the_document_is_a_recipe(tmp_path):
    text = (catalog.FOLDER.parent / "docs" / "reproducing.md").read_text()
    grid, rows = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "grid.toml").write_text(grid)
    found = catalog.load(str(tmp_path / "grid.toml"))
    assert [row.id for row in found.rows] == ["low-fedavg", "low-fedumf", "high-fedavg"]
    assert found.rows[2].settings["rounds"] == 100
    (tmp_path / "rows.toml").write_text(grid[: grid.index("[[axes]]")] + rows)
    [row] = catalog.load(str(tmp_path / "rows.toml")).rows
    assert row == dataclasses.replace(found.rows[0], label=row.label, columns=row.columns)


ANALYSIS = """
title = "Figure 1: x"
paper = "x"
kind = "analysis"
source = {source}
[metric]
name = "svcca"
label = "x"
unit = ""
[[rows]]
id = "a"
label = "a"
paper = "x"
[rows.settings]
algo = "periodic_averaging"
paper = "embracingfl"
task = "cifar10"
"""
RUNS = """
title = "Table 1: x"
paper = "x"
kind = "runs"
[metric]
name = "best_test_accuracy"
label = "x"
unit = "%"
higher_is_better = true
[[rows]]
id = "a"
label = "a"
paper = "1"
[rows.settings]
algo = "embracing"
paper = "embracingfl"
task = "cifar10"
"""


def run_file(folder, text, *arguments):
    (folder / "r.toml").write_text(text)
    words = [f"--recipe={folder / 'r.toml'}", "--scale=0.01", "--data=embedded", *arguments]
    return run_experiment.main([*words, f"--output_dir={folder / 'out'}"])


@pytest.mark.parametrize(
    "source",
    [
        "pdb -c __import__('os').system('touch${IFS}%s')",
        "tff_partial.similarity --figure=1 --output_dir=%s",
        "tff_partial.similarity --figure=2",
        "tff_partial.compare %s",
        "",
    ],
)
def test_a_recipe_runs_no_program_but_the_known_analyses(source, tmp_path, capsys):
    source = source.replace("%s", str(tmp_path / "pwned"))
    assert run_file(tmp_path, ANALYSIS.format(source=f'"{source}"')) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {tmp_path.name}/r, source must be one of tff_partial.simil")
    assert [path.name for path in tmp_path.iterdir()] == ["r.toml"]


@pytest.mark.parametrize(
    "setting",
    [
        "embracing_record_dir = '%s'",
        "flagfile = '%s'",
        "undefok = 'x'",
        "output_dir = '%s'",
        "runtime = 'local_cpp'",
        "workers = 'a:1'",
        "seed = 1",
        "data_dir = '%s'",
        "preset = 'demo'",
        "recipe = 'x'",
        "list = true",
        "clients = [8]",
        "tiers = { strong = 1 }",
    ],
)
def test_a_recipe_sets_nothing_but_what_decides_results(setting, tmp_path, capsys):
    setting = setting.replace("%s", str(tmp_path / "elsewhere"))
    assert run_file(tmp_path, f"{RUNS}{setting}\n", "--dry_run") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {tmp_path.name}/r, a must have ")
    assert setting.partition(" =")[0] in line
    assert [path.name for path in tmp_path.iterdir()] == ["r.toml"]


def test_analyses_are_given_no_settings_that_they_do_not_take(tmp_path, capsys):
    source = '"tff_partial.similarity --figure=1"'
    assert run_file(tmp_path, f"{ANALYSIS.format(source=source)}clip_norm = 1\n") == 2
    assert "['clip_norm']" in capsys.readouterr().err
    assert run_file(tmp_path, ANALYSIS.format(source=source), "--runtime=in_process") == 2
    assert "['--runtime']" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flag",
    [
        "--runtime=nowhere",
        "--workers=a:1",
        "--runtime=remote",
        "--runtime=local_cpp --client_parallelism=2",
        "--client_state=paper",
        "--device_speeds=fast",
        "--round_deadline=-1",
        "--full_model_seconds=nan",
        "--seeds=100000000",
        "--local_steps=100000000000000000000",
        "--partition=dirichlet:1e-300",
        "--clients=100000000000",
    ],
)
def test_flags_of_a_recipe_are_checked_before_anything_is_written(flag, tmp_path, capsys):
    assert run_file(tmp_path, RUNS, *flag.split()) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert [path.name for path in tmp_path.iterdir()] == ["r.toml"]
