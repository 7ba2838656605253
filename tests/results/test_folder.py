"""A run's folder: new, of the same run, or refused."""

import json

import numpy as np
import pytest

from tff_partial.results import folder as results


def test_a_folder_is_new_or_of_the_same_run_whatever_a_killed_run_left(tmp_path):
    settings, execution = {"task": "mnist"}, {}
    (tmp_path / "config.json_temp").write_text('{"sett')
    results.prepare_folder(str(tmp_path), settings, execution).close()
    assert json.loads((tmp_path / "config.json").read_text())["settings"] == settings
    for content in ("[1]", '{"settings": 3}'):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(results.ResultsError, match="config.json must "):
            results.prepare_folder(str(tmp_path), settings, execution)
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(results.ResultsError, match="holds other files"):
        results.prepare_folder(str(other), settings, execution)
    assert [path.name for path in other.iterdir()] == ["notes.txt"]


def test_other_settings_are_named_one_by_one(tmp_path):
    old, new = (
        {"task": "mnist", "width": 3, "speeds": (1,)},
        {"width": 4, "speeds": [1], "x": None},
    )
    results.prepare_folder(str(tmp_path), old, {}).close()
    with pytest.raises(results.ResultsError) as error:
        results.prepare_folder(str(tmp_path), {**old, **new}, {})
    assert str(error.value).endswith(f"Received: {tmp_path} with width=3 there, 4 now")


def test_a_run_of_before_there_were_precisions_is_one_in_float32(tmp_path):
    old = {"task": "mnist"}
    results.prepare_folder(str(tmp_path), old, {}).close()
    with pytest.raises(results.ResultsError, match="precision='float32' there, 'bfloat16' now"):
        results.prepare_folder(str(tmp_path), {**old, "precision": "bfloat16"}, {})
    resumed = {**old, "precision": "float32", "record_precision": "float32"}
    results.prepare_folder(str(tmp_path), resumed, {}).close()


def test_weights_are_saved_in_order_with_their_names(tmp_path):
    arrays = [np.arange(3), np.ones([2, 2], np.float32)]
    results.save_weights(str(tmp_path / "weights.npz"), ["dense/kernel", "dense/kernel"], arrays)
    with np.load(tmp_path / "weights.npz") as saved:
        assert saved.files == ["000 dense/kernel", "001 dense/kernel"]
        for name, expected in zip(saved.files, arrays):
            np.testing.assert_array_equal(saved[name], expected)


def test_a_run_may_get_more_rounds_but_not_fewer(tmp_path):
    old = {"task": "mnist", "rounds": 3, "eval_every": 1}
    results.prepare_folder(str(tmp_path), old, {}).close()
    longer = {**old, "rounds": 5, "eval_every": 2, "evaluate": "tiers", "target_accuracy": 0.9}
    results.prepare_folder(str(tmp_path), longer, {}).close()
    assert json.loads((tmp_path / "config.json").read_text())["settings"] == longer
    with pytest.raises(results.ResultsError, match="with rounds=5 there, 4 now"):
        results.prepare_folder(str(tmp_path), {**longer, "rounds": 4}, {})
