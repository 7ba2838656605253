"""From objects of JSON and TOML files, which may hold anything, to dataclasses."""

from __future__ import annotations

import collections.abc
import dataclasses
import math
import typing
from typing import Any, NoReturn, TypeVar, Union

from typing_extensions import TypeAlias

Json: TypeAlias = Any
"""A value of a JSON or TOML document: a text, number, boolean, None, list or object."""

T = TypeVar("T")


def parse(kind: type[T], where: str, content: Json, closed: bool = False) -> T:
    """Create a dataclass from an object whose keys are its fields.

    Types of fields may be str, bool, int, float (finite), dataclasses, tuples of one type,
    mappings, Optional of these, and Any. A key whose value is None counts as missing; one that is
    no field is ignored, or an error if `closed`. Messages call the object `where`.

    Raises:
      ValueError: If a field without default is missing or a value has another type.
    """
    if not isinstance(content, dict):
        fail(where, "be a table", content)
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    values = {name: value for name, value in content.items() if value is not None}
    required = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
    missing = [name for name in required if name not in values]
    if missing:
        fail(where, f"have {', '.join(missing)}", sorted(content))
    hints = typing.get_type_hints(kind)
    unknown = [name for name in values if name not in hints]
    if closed and unknown:
        fail(where, f"have no keys but {', '.join(hints)}", unknown[0])
    known = [name for name in hints if name in values]
    return kind(**{n: _parse(hints[n], f"{where}, {n}", values[n], closed) for n in known})


def _parse(hint: Json, where: str, value: Json, closed: bool) -> Json:
    """Return a value as its type hint says."""
    if typing.get_origin(hint) is Union:  # Optional
        hint, _ = typing.get_args(hint)
    types, arguments = _types(hint), typing.get_args(hint)
    is_bool = isinstance(value, bool)  # which is an int too
    fits = isinstance(value, types) and (not is_bool or hint in (bool, Any))
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        fail(where, f"be {' or '.join(each.__name__ for each in types)}", value)
    if dataclasses.is_dataclass(hint):
        return parse(hint, where, value, closed)
    if types == (list,):
        items = enumerate(value)
        return tuple(_parse(arguments[0], f"{where}[{i}]", item, closed) for i, item in items)
    if arguments and arguments[1] is str:
        return {name: str(item) for name, item in value.items()}
    return value


def _types(hint: Json) -> tuple[type, ...]:
    """Return the types that a file may hold for a type hint."""
    origin = typing.get_origin(hint) or hint
    if origin is collections.abc.Mapping or dataclasses.is_dataclass(hint):
        return (dict,)
    return {tuple: (list,), float: (int, float), Any: (object,)}.get(origin, (origin,))


def fail(where: str, requirement: str, received: object) -> NoReturn:
    """Raise a ValueError that says what is required and what was received."""
    raise ValueError(f"{where} must {requirement}. Received: {received!r}")
