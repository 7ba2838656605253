"""Values as flags, Python arguments and recipes give them."""

import numpy as np
import pytest

from tff_partial.core.fields import Field

TEXT, WHOLE = Field("rate", str, None, "A rate."), Field("rounds", int, None, "Rounds.", (1, 9))
NUMBER, SWITCH = Field("width", float, None, "A width."), Field("augment", bool, False, "Crop.")


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (TEXT, "0.1,5:0.2", "0.1,5:0.2"),
        (TEXT, 0.1, "0.1"),
        (WHOLE, 3, 3),
        (WHOLE, np.int64(3), 3),
        (WHOLE, "3", 3),
        (NUMBER, 1, 1.0),
        (NUMBER, "inf", float("inf")),
        (NUMBER, np.float32(0.5), 0.5),
        (SWITCH, True, True),
        (SWITCH, "false", False),
    ],
)
def test_values_become_the_type_of_the_flag(field, value, expected):
    checked = field.check(value)
    assert checked == expected
    assert type(checked) is field.type


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (TEXT, ["0.1"], "rate must be a text"),
        (TEXT, True, "rate must be a text"),
        (WHOLE, 3.0, "rounds must be an integer"),
        (WHOLE, True, "rounds must be an integer"),
        (WHOLE, "three", "rounds must be an integer"),
        (WHOLE, 0, "rounds must be at least 1"),
        (WHOLE, 10, "rounds must be at most 9"),
        (NUMBER, "wide", "width must be a number"),
        (NUMBER, 10**400, "width must be a number"),
        (NUMBER, None, "width must be a number"),
        (SWITCH, 1, "augment must be True or False"),
        (SWITCH, "yes", "augment must be True or False"),
    ],
)
def test_other_values_are_an_error(field, value, message):
    with pytest.raises(ValueError, match=rf"{message}.*Received: {field.name}="):
        field.check(value)
