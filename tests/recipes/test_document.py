"""recipe.json: what it notes, and rows of several starts."""

import json

import pytest
from absl import flags

from tests.recipes.planning import plan
from tff_partial.cli import run as run_experiment
from tff_partial.recipes import plan as recipe_plan
from tff_partial.recipes import runner


def test_data_that_stand_in_for_the_papers_are_noted():
    for name in ("fedumf/tableA1", "fedumf/tableA2"):
        only = "c15-mnist-iid-fedavg,c15-emnist-iid-fedavg"
        rows = plan(name, only=only, data="tfds").document.rows
        assert [row.stands_in for row in rows] == [False, True]


def test_rows_of_several_starts_are_merged_and_other_settings_refused(tiny, tmp_path, capsys):
    path = tmp_path / "out" / "own" / "tiny" / "scale-0.013" / "recipe.json"

    def create(*more):
        values = flags.FlagValues()
        run_experiment.define_flags(values)
        values(["run", *tiny, *more])
        options = run_experiment.recipe_options(values)
        found = recipe_plan.create(options)
        runner.document.write(found.folder, found.merge)
        return [row["id"] for row in json.loads(path.read_text())["rows"]]

    assert create("--only=proximal") == ["proximal"]
    assert create("--only=average", "--seeds=3") == ["average", "proximal"]
    with pytest.raises(ValueError, match="output_dir must be new or hold this recipe"):
        create("--only=average", "--rounds=7")
    assert [row["id"] for row in json.loads(path.read_text())["rows"]] == ["average", "proximal"]
