import pytest

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
