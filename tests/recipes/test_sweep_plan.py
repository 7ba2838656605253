"""From a sweep to its runs."""

import json
import threading

import pytest

from tff_partial.recipes import document, sweep_plan, sweep_text
from tff_partial.system import folder_lock

SMALL = {"task": "mnist", "model": "softmax", "data": "embedded", "clients": 4, "rounds": 2}


def plan(folder, text="", seeds=None, metric="final_test_accuracy", **given):
    """The plan of a sweep below a folder, and its settings."""
    swept = sweep_text.parse(text) if text else {}
    given = {**SMALL, "clients_per_round": 2, "output_dir": str(folder), **given}
    given = {name: value for name, value in given.items() if name not in swept}
    return sweep_plan.create(sweep_plan.Options(swept, given, seeds, metric))


def test_a_folder_for_each_setting_and_seed(tmp_path):
    made, settings = plan(tmp_path / "s", "learning_rate=0.1,0.2;local_steps=3;seed=4,7")
    first = "learning_rate=0.1,local_steps=3"
    places = [run.folder.relative_to(tmp_path / "s").as_posix() for run in made.runs]
    assert places[:2] == [f"{first}/seed-4", "learning_rate=0.2,local_steps=3/seed-4"]
    assert places[2] == f"{first}/seed-7"
    assert settings[first] == {"learning_rate": "0.1", "local_steps": 3}
    run = made.runs[0]
    assert run.experiment.settings.learning_rate == "0.1"
    assert (run.experiment.seed, run.rounds, run.is_embedded) == (4, 2, True)
    assert run.arguments[0] == "run_experiment.py"
    words = {*run.arguments}
    assert {"--learning_rate=0.1", "--local_steps=3", "--seed=4", "--task=mnist"} <= words
    assert f"--output_dir={run.folder}" in words
    assert not (tmp_path / "s").exists()


def test_seeds_alone_are_one_setting(tmp_path):
    made, _ = plan(tmp_path, seeds=3, seed=5)
    assert [run.seed for run in made.runs] == [5, 6, 7]
    assert {run.folder.parent.name for run in made.runs} == {"fedavg"}
    assert made.recipe.name == "Seeds: mnist, fedavg"


def test_hyperparameters_vary_for_their_own_algorithm_only(tmp_path):
    made, _ = plan(tmp_path, "algo=fedavg,fedprox;fedprox_mu=0.1,1")
    assert [row.label for row in made.rows] == [
        "algo=fedavg",
        "algo=fedprox, fedprox_mu=0.1",
        "algo=fedprox, fedprox_mu=1.0",
    ]
    # One that is given beside the sweep goes to its algorithm too.
    made, _ = plan(tmp_path, "algo=fedavg,fedprox", fedprox_mu=0.5)
    assert [run.experiment.params.get("mu") for run in made.runs] == [None, 0.5]


def test_a_model_of_the_user_s_may_vary(tmp_path, monkeypatch):
    (tmp_path / "sweep_models.py").write_text("def create():\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    made, _ = plan(tmp_path / "s", "model=softmax,sweep_models:create")
    assert [row.id for row in made.rows] == ["model=softmax", "model=sweep_models:create"]
    assert "--model=sweep_models:create" in made.runs[1].arguments


def test_folders_have_names_whatever_the_values_are(tmp_path):
    values = ["dirichlet:0.1,fill", "ids:/some/where.npy", "ids:/some-where.npy"]
    rows = [
        sweep_plan._row({"partition": value}, sweep_plan.Options({}, SMALL)) for value in values
    ]
    assert rows[0].id == "partition=dirichlet:0.1,fill"
    assert len({row.id for row in rows}) == 3
    assert not any("/" in row.id for row in rows)
    long = sweep_plan._row({"partition": "x" * 400}, sweep_plan.Options({}, SMALL))
    assert len(long.id) < 150


def test_starts_at_the_same_time_write_all_settings_and_other_flags_are_refused(tmp_path):
    """Each is planned before any has written."""
    folder = tmp_path / "sweep"
    texts = [
        ("learning_rate=0.1", {}),
        ("learning_rate=0.2", {}),
        ("momentum=0", {"local_steps": 3}),
    ]
    first, second, other = (plan(folder, text, **given)[0] for text, given in texts)
    folder.mkdir()
    (folder / "sweep.json_temp").write_text("{")  # one that was killed while it wrote
    document.write(folder, first.merge)
    document.write(folder, second.merge)
    with pytest.raises(ValueError, match="hold a sweep with the same other settings"):
        document.write(folder, other.merge)
    content = json.loads((folder / "sweep.json").read_text())
    assert [row["id"] for row in content["rows"]] == ["learning_rate=0.1", "learning_rate=0.2"]


def test_writing_waits_for_another_start(tmp_path):
    made, _ = plan(tmp_path, "learning_rate=0.1")
    writing = threading.Thread(target=document.write, args=(tmp_path, made.merge))
    with folder_lock.FolderLock(str(tmp_path)):
        writing.start()
        writing.join(0.3)
        assert writing.is_alive()
        assert not (tmp_path / "sweep.json").exists()
    writing.join()
    assert (tmp_path / "sweep.json").exists()


def test_a_later_start_adds_settings_and_other_flags_are_refused(tmp_path):
    made, _ = plan(tmp_path, "learning_rate=0.1")
    document.write(made.folder, made.merge)
    text = (tmp_path / "sweep.json").read_text()
    content = json.loads(text)
    assert content["recipe"] == ""
    assert content["metric"]["name"] == "final_test_accuracy"
    assert [row["id"] for row in content["rows"]] == ["learning_rate=0.1"]
    assert str(tmp_path) not in text
    made, _ = plan(tmp_path, "learning_rate=0.2,0.1", seeds=2)
    assert [row.id for row in made.document.rows] == ["learning_rate=0.1", "learning_rate=0.2"]
    with pytest.raises(ValueError, match="hold a sweep with the same other settings"):
        plan(tmp_path, "learning_rate=0.1", local_steps=3)
    assert plan(tmp_path, "learning_rate=0.1", rounds=3)[0].runs[0].rounds == 3  # extends it
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="output_dir must be new, empty or that of a sweep"):
        plan(other, "learning_rate=0.1")


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("momentum=0.5,2", {}, r"momentum must be .*\(in momentum=2"),
        ("algo=fedavg,fedporx", {}, r"Did you mean fedprox\? \(in algo=fedporx\)"),
        ("model=softmax,bilstm", {}, r"model must take image inputs .*\(in model=bilstm\)"),
        ("fedprox_mu=0.1,1", {}, "hyperparameters must be of an algorithm of the rows, fedavg"),
        ("preset=demo,paper", {}, r"real data.*\(in preset=paper\)"),
        ("seed=0,1", {"seeds": 2}, "seeds in one place"),
        ("momentum=0,0.5", {"metric": "final_test_acc"}, "Did you mean final_test_accuracy"),
        (
            "momentum=0,0.5",
            {"metric": "rounds_to_target", "target_accuracy": 0},
            "target_accuracy must be given",
        ),
        ("momentum=0,0.5", {"runtime": "in_proces"}, r"Did you mean in_process\?$"),
        ("learning_rate=0.1,0.2;local_steps=1..20;seed=0..500", {}, "at most 10,000 runs"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(text, given, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        plan(tmp_path / "s", text, **given)
    assert not (tmp_path / "s").exists()


def test_a_flag_is_given_in_one_place():
    with pytest.raises(ValueError, match="alone or in sweep.* Received: momentum"):
        sweep_plan.Options({"momentum": (0.5,)}, {"momentum": 0.1})
