"""What models and tasks declare, and whether they suit each other."""

import importlib
import inspect

import pytest

import models
import tasks
from tff_partial import tiers
from tff_partial.experiments import bundled

PRESETS = [
    (task, settings)
    for task in tasks.TASKS.values()
    for settings in (task.demo, *task.papers.values())
]


@pytest.mark.parametrize("architecture", models.ARCHITECTURES.values(), ids=models.NAMES)
def test_architectures_say_what_their_builders_take(architecture):
    module, function = architecture.builder.split(":")
    builder = getattr(importlib.import_module(f"models.{module}"), function)
    assert function == f"create_{architecture.name}"
    assert architecture.normalized == ("normalization" in inspect.signature(builder).parameters)
    assert {*architecture.inputs} <= {"image", "feature", "token"}
    assert {*architecture.cuts} <= {*tiers.NAMES}


@pytest.mark.parametrize(
    ("task", "settings"), PRESETS, ids=[f"{t.name}-{s.model}" for t, s in PRESETS]
)
def test_models_of_presets_take_the_inputs_of_their_task(task, settings):
    bundled.check_model_fits(settings.model, task)


@pytest.mark.parametrize("name", tasks.TASKS)
def test_tasks_say_what_their_data_are(name):
    data = tasks.load(tasks.TASKS[name], "embedded")
    assert data.x_dtype == tasks.TASKS[name].x_dtype
    assert len(data.input_shape) == len(tasks.TASKS[name].input_shape)


@pytest.mark.parametrize(
    ("model", "task", "kind"),
    [
        ("resnet20", "imdb", "token"),
        ("softmax", "imdb", "token"),
        ("bilstm", "mnist", "image"),
        ("resnet20", "synthetic", "feature"),
    ],
)
def test_a_model_that_does_not_take_the_examples_is_refused(model, task, kind):
    with pytest.raises(ValueError, match=f"model must take {kind} inputs .*Received: .*{model}"):
        bundled.check_model_fits(model, tasks.TASKS[task])


def test_a_model_has_the_tiers_of_its_architecture():
    model = bundled.create_model("bilstm", (4,), 2, width=0.1)
    assert model.input_dtype == "int32"
    assert {tier: (cut.blocks, cut.half) for tier, cut in model.cuts.items()} == {
        "moderate": (1, False),
        "weak": (1, True),
    }
    assert model.capacity_batch == 1


def test_a_new_model_is_one_entry(monkeypatch):
    own = models.Architecture("own", "mlp:create_mlp_100", ("feature",), (5,), 3)
    monkeypatch.setitem(models.ARCHITECTURES, "own", own)
    bundled.check_model_fits("own", tasks.TASKS["synthetic"])
    assert bundled.create_model("own", own.input_shape, own.num_classes).input_dtype == "float32"
