"""Settings of a run: names, types, defaults."""

import pytest

from tff_partial.core.fields import Field
from tff_partial.experiments import flags

KNOWN = {
    "rounds": Field("rounds", int, None, "", (1, 10)),
    "rate": Field("rate", float, 0.5, ""),
    "augment": Field("augment", bool, False, ""),
}


def test_defaults_stand_where_nothing_or_none_is_given():
    given = {"rounds": 3, "rate": None}
    assert flags.check(given, KNOWN) == {"rounds": 3, "rate": 0.5, "augment": False}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"round": 3, "rte": 1},
            r"must be flags of .*\. Received: \['round', 'rte'\]",
        ),
        ({"rounds": 11}, "Received: rounds=11"),
        ({"rounds": 1.5}, "Received: rounds=1.5"),
        ({"rate": "fast"}, "Received: rate='fast'"),
        ({"augment": "maybe"}, "Received: augment='maybe'"),
    ],
)
def test_unknown_names_and_wrong_values_are_one_line(given, message):
    with pytest.raises(ValueError, match=message) as error:
        flags.check(given, KNOWN)
    assert "\n" not in str(error.value)


def test_hyperparameters_are_flags_of_their_algorithm():
    assert flags.OWNERS["fedumf_alpha"] == "fedumf"
    assert flags.OWNERS["fedumf_feddc_alpha"] == "fedumf_feddc"
    assert {*flags.OWNERS} < {*flags.DECIDING}
    assert all(flags.DECIDING[name].default is None for name in flags.OWNERS)


def test_what_decides_results_is_apart_from_where_and_how():
    assert not {*flags.DECIDING} & {*flags.EXECUTING}
    assert {"rounds", "seed", "device_speeds"} < {*flags.DECIDING}
    assert {"runtime", "data_dir", "output_dir"} < {*flags.EXECUTING}
