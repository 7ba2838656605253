"""Schedules: texts and functions."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from tff_partial.core import schedules


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.1", {0: 0.1, 1000: 0.1}),
        (0.5, {3: 0.5}),
        ("0.4,800:0.04,900:0.004", {0: 0.4, 799: 0.4, 800: 0.04, 899: 0.04, 900: 0.004}),
        ("0.1*0.5", {0: 0.1, 1: 0.05, 3: 0.0125}),
        ("0.4*0.5,2:0.1", {1: 0.2, 2: 0.1, 3: 0.05}),
        ("0.4~4,5.5:0.1", {0: 0.1, 1: 0.2, 3: 0.4, 5: 0.4, 6: 0.1}),
    ],
)
def test_value_of_a_round(text, expected):
    schedule = schedules.create(text)
    for round_num, value in expected.items():
        assert float(schedule(round_num)) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    "text", ["", "abc", "0", "-0.1", "nan", "0.1,5", "0.1,9:0.2,3:0.1", "inf", "0.1~x", "0.1~-1"]
)
def test_what_is_no_schedule_is_refused_with_what_was_received(text):
    with pytest.raises(ValueError, match="Received") as error:
        schedules.create(text)
    assert "\n" not in str(error.value)


def test_a_function_of_the_round_is_a_schedule():
    def halved_later(round_num):
        if round_num < 3:
            return 0.4
        return 0.2

    schedule = schedules.create(halved_later)
    assert [float(schedule(r)) for r in (0, 2, 3, 9)] == pytest.approx([0.4, 0.4, 0.2, 0.2])
    cosine = schedules.create(lambda r: 0.1 * (1 + tf.cos(r / 10)))
    assert float(cosine(tf.constant(5))) == pytest.approx(0.1 * (1 + np.cos(0.5)))


def test_a_function_is_found_by_name(tmp_path, monkeypatch):
    (tmp_path / "my_rates.py").write_text(
        "def slow(round_num):\n    return 0.1 / (round_num + 1)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    assert float(schedules.create("my_rates:slow")(4)) == pytest.approx(0.02)


def test_a_function_must_return_a_number():
    with pytest.raises(ValueError, match="a schedule must return a number. Received: wrong"):
        schedules.create(wrong)


def wrong(round_num):
    return [round_num, round_num]


def test_a_function_must_return_positive_numbers_in_every_round():
    with pytest.raises(ValueError, match="Received: .*falling.* returns 0 in round 3"):
        schedules.create(falling).check(4)
    schedules.create(falling).check(3)
    with pytest.raises(ValueError, match="which returns nan in round 0"):
        schedules.create(lambda round_num: np.nan)


def falling(round_num):
    return 3.0 - round_num
