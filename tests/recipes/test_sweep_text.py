"""Sweeps as text."""

import pytest

from tff_partial.recipes import sweep_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "learning_rate=0.01,0.05;seed=0..2",
            {"learning_rate": ("0.01", "0.05"), "seed": (0, 1, 2)},
        ),
        (" --local_steps = 1, 3..4 ; augment=true,false;", None),
        ("tiers=strong:8|strong:4,weak:4", {"tiers": ("strong:8", "strong:4,weak:4")}),
        ("fedprox_mu=0.1,1,1.0", {"fedprox_mu": (0.1, 1.0)}),
    ],
)
def test_values_have_the_type_of_their_flag(text, expected):
    if expected is None:
        expected = {"local_steps": (1, 3, 4), "augment": (True, False)}
    assert sweep_text.parse(text) == expected


def test_a_mapping_is_the_same():
    over = {"seed": range(3), "learning_rate": [0.1, "0.1*0.99"]}
    assert sweep_text.parse(over) == {"seed": (0, 1, 2), "learning_rate": ("0.1", "0.1*0.99")}


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ("", "sweep must name a flag"),
        ("seed", "sweep must read name=value"),
        ("seed=", "sweep must read name=value"),
        ("seed=1;seed=2", "each name once"),
        ("seed=2..1", "a range must rise, by less than 1000. Received: seed=2..1"),
        ("seed=0..1000", "a range must rise"),
        ("seed=-1", "seed must be at least 0"),
        ("seed=a", "seed must be an integer. Received: seed='a'"),
        ("learningrate=1", r"Received: learningrate\. Did you mean learning_rate\?"),
        ("output_dir=a,b", "sweep must be over flags that decide results"),
        ({"learning_rate": "0.1,0.2"}, "sweep must have a list of values"),
        ({"seed": []}, "a flag must have from 1 to 1000 values. Received: 0 of seed"),
    ],
)
def test_other_texts_are_refused(sweep, message):
    with pytest.raises(ValueError, match=message):
        sweep_text.parse(sweep)
