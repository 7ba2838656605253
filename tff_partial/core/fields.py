"""Fields of a dataclass with their types and documentation: flags are made of them."""

from __future__ import annotations

import dataclasses
import inspect
import numbers
import re
import typing
from collections.abc import Collection
from typing import Any, NamedTuple, Optional, Union

Value = Union[str, int, float, bool, None]
_KINDS = {str: "a text", int: "an integer", float: "a number", bool: "True or False"}


class Field(NamedTuple):
    """A named value that can be given as a flag or in Python.

    Attributes:
      name: Its name.
      type: `str`, `int`, `float` or `bool`.
      default: Its value where none is given; None if there is none.
      doc: What it means, in a sentence.
      bounds: The smallest and the largest value of an integer.
    """

    name: str
    type: type
    default: Value
    doc: str
    bounds: Optional[tuple[int, int]] = None

    @property
    def help(self) -> str:
        """The documentation with the default."""
        default = "none" if self.default in (None, "") else self.default
        return f"{self.doc} Default: {default}."

    def check(self, value: object) -> Value:
        """Return a value as the field's type; it may be given as text, and texts as numbers.

        Raises:
          ValueError: If it is of another type or out of bounds.
        """
        received = f"Received: {self.name}={value!r}"
        try:
            checked = self._convert(value)
        except (ValueError, OverflowError, KeyError):
            raise ValueError(f"{self.name} must be {_KINDS[self.type]}. {received}") from None
        if self.bounds and checked < self.bounds[0]:
            raise ValueError(f"{self.name} must be at least {self.bounds[0]}. {received}")
        if self.bounds and checked > self.bounds[1]:
            raise ValueError(f"{self.name} must be at most {self.bounds[1]:,}. {received}")
        return checked

    def _convert(self, value: object) -> Any:
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        is_whole = isinstance(value, numbers.Integral) or self.type is not int
        if self.type is bool:
            return {"true": True, "false": False}[str(value).lower()]
        if isinstance(value, str) or (is_number and is_whole):
            return self.type(value)
        raise ValueError


def fields_of(described: type, without: Collection[str] = ()) -> tuple[Field, ...]:
    """Return the fields of a dataclass, described below 'Attributes:' of its docstring.

    Raises:
      ValueError: If one has a type that no flag has, or is not described.
    """
    types, docs, fields = typing.get_type_hints(described), documented(described), []
    for field in dataclasses.fields(described):
        if field.name in without:
            continue
        kind, name = _plain_type(types[field.name]), f"{described.__module__}.{field.name}"
        if kind not in _KINDS:
            known = [kind.__name__ for kind in _KINDS]
            raise ValueError(f"a flag must be one of {known}. Received: {name} of type {kind}")
        if field.name not in docs:
            raise ValueError(
                f"{described.__qualname__} must describe {field.name} below 'Attributes:' of its "
                f"docstring. Received: {sorted(docs)}"
            )
        default = None if field.default is dataclasses.MISSING else field.default
        fields.append(Field(field.name, kind, default, docs[field.name]))
    return tuple(fields)


def documented(described: type) -> dict[str, str]:
    """Return what the docstrings of a dataclass and its bases say of its fields, by name."""
    docs: dict[str, str] = {}
    for base in reversed(described.__mro__):
        _, _, section = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")
        for name, text in re.findall(r"^  (\w+): (.*(?:\n    .*)*)", section, re.MULTILINE):
            docs[name] = " ".join(text.split())
    return docs


def _plain_type(hint: Any) -> type:
    """Optional[float] -> float."""
    inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
    return inner[0] if typing.get_origin(hint) is Union else hint
