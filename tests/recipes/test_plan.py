"""From a recipe and flags to runs."""

import dataclasses

import pytest
from absl import flags

import tasks
from tests.recipes.planning import TRAINED, plan
from tff_partial.cli import activations, similarity
from tff_partial.cli import run as run_experiment
from tff_partial.core import schedules
from tff_partial.experiments import config
from tff_partial.experiments import flags as run_flags
from tff_partial.recipes import catalog
from tff_partial.recipes import plan as recipe_plan
from tff_partial.recipes import scale as recipe_scale
from tff_partial.similarity import neurons, study


def parsed(arguments):
    """The experiment that a run's own process makes of its flags."""
    values = flags.FlagValues()
    run_experiment.define_flags(values)
    values(arguments)
    settings = run_experiment.settings_of(values)
    return config.create(**{n: v for n, v in settings.items() if n in run_flags.DECIDING})


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
        if not run.result:
            assert parsed(run.arguments) == run.experiment


@pytest.mark.parametrize("name", ["fedumf/tableA1", "fedumf/tableA2"])
def test_fedumfs_appendix_clips_and_decays_as_feddcs_code(name):
    for run in plan(name, data="tfds").runs:
        local = config.create_params(run.experiment).local
        assert (local.clip_norm, local.weight_decay, local.weight_decay_on) == (10, 1e-3, "all")
        assert local.momentum == 0


@pytest.mark.parametrize(
    "name",
    [name for name in TRAINED if name.startswith("feddse/") and catalog.load(name).kind == "runs"],
)
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


@pytest.mark.parametrize(("scale", "data"), [(1.0, "tfds"), (0.1, "embedded")])
def test_activations_are_what_their_command_makes_of_the_flags(scale, data):
    for run in plan("feddse/figure2", scale, data=data).runs:
        flag, module, *words = run.arguments
        assert (flag, module) == ("-m", "tff_partial.activations")
        flags = vars(activations.parse(words))
        given = {name: flags[name] for name in study.SETTINGS}
        built = config.create(**neurons.create_settings(**given)).settings
        wanted = run.experiment.settings
        for field in {*run_flags.SETTINGS} - {"eval_every", "target_accuracy"}:
            assert getattr(built, field) == getattr(wanted, field), field


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
    "model": ({"model": "resnet21"}, "model must be one of"),
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


@pytest.mark.parametrize("name", [n for n in TRAINED if catalog.load(n).kind == "runs"])
def test_every_recipe_of_trained_rows_has_reduced_settings(name, tmp_path):
    given = {"data": "tfds", "output_dir": str(tmp_path)}
    found = recipe_plan.create(recipe_plan.Options(name, given=given, reduced=True))
    assert found.folder == tmp_path / name / "reduced"
    assert found.document.reduced
    assert found.document.differences
    for run in found.runs:
        settings, reduced = run.experiment.settings, run.row.reduced
        assert all(each.why for each in reduced.values())
        for field in ("rounds", "clients", "local_steps", "width", "clip_norm", "partition"):
            if field in reduced:
                assert getattr(settings, field) == reduced[field].value


def test_what_follows_from_reduced_settings_follows_and_flags_come_last(tmp_path):
    given = {"data": "tfds", "output_dir": str(tmp_path), "rounds": 7}
    options = recipe_plan.Options("embracing/table3", 1.0, "case7", 1, given, True)
    (run,) = recipe_plan.create(options).runs
    settings = run.experiment.settings
    assert (settings.clients, settings.tiers, settings.rounds) == (16, "strong:2,weak:14", 7)


def test_reduced_settings_with_another_task_stand_in_for_the_papers(tmp_path):
    given = {"data": "tfds", "output_dir": str(tmp_path)}
    options = recipe_plan.Options("embracing/table4", 1.0, "case1", 1, given, True)
    document = recipe_plan.create(options).document
    (row,) = document.rows
    assert row.stands_in
    assert "--task=mnist" in row.command
    assert document.notes[-1].startswith("Reduced settings, measured: ")
    assert any("task mnist: FEMNIST is not at hand" in note for note in document.notes)


def test_reduced_settings_are_for_real_data():
    with pytest.raises(ValueError, match="reduced must have the real data"):
        recipe_plan.create(
            recipe_plan.Options("embracing/table5", given={"data": "embedded"}, reduced=True)
        )


def test_only_recipes_that_have_them_are_reduced():
    with pytest.raises(ValueError, match="reduced must be of a recipe that has it"):
        recipe_plan.create(recipe_plan.Options("embracing/table1", reduced=True))
