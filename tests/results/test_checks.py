"""Objects of JSON and TOML files become dataclasses, or errors of one line."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Optional

import pytest

from tff_partial.results import checks


@dataclasses.dataclass(frozen=True)
class Inner:
    name: str
    share: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Outer:
    count: int
    inner: Inner
    others: tuple[Inner, ...] = ()
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_set: bool = False
    anything: Any = None


def test_nested_objects_become_dataclasses():
    content = {
        "count": 3,
        "inner": {"name": "a", "share": None},
        "others": [{"name": "b", "share": 1}, {"name": "c", "unknown": 1}],
        "columns": {"x": 5},
        "is_set": True,
        "anything": [True],
        "unknown": 1,
    }
    assert checks.parse(Outer, "file", content) == Outer(
        3, Inner("a"), (Inner("b", 1), Inner("c")), {"x": "5"}, True, [True]
    )


GOOD = {"count": 3, "inner": {"name": "a"}}
BAD = {
    "no object": ([], "file must be a table. Received: []"),
    "missing": ({"count": 3}, "file must have inner. Received: ['count']"),
    "none": ({**GOOD, "inner": None}, "file must have inner"),
    "boolean": ({**GOOD, "count": True}, "file, count must be int. Received: True"),
    "number": ({**GOOD, "is_set": 1}, "file, is_set must be bool. Received: 1"),
    "text": ({**GOOD, "others": "abc"}, "file, others must be list. Received: 'abc'"),
    "inner": ({**GOOD, "inner": {"name": 1}}, "file, inner, name must be str. Received: 1"),
    "item": ({**GOOD, "others": [{}]}, "file, others[0] must have name. Received: []"),
    "infinite": (
        {**GOOD, "inner": {"name": "a", "share": float("inf")}},
        "file, inner, share must be int or float. Received: inf",
    ),
}


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD.keys())
def test_what_does_not_fit_is_named_with_its_place(content, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        checks.parse(Outer, "file", content)


def test_keys_that_are_no_fields_are_an_error_where_all_are_known():
    content = {**GOOD, "inner": {"name": "a", "nmae": "b"}}
    assert checks.parse(Outer, "file", content).inner == Inner("a")
    with pytest.raises(ValueError, match="file, inner must have no keys but name, share"):
        checks.parse(Outer, "file", content, closed=True)
