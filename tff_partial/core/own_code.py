"""Functions and objects of a user's: importing them by name, and naming them in config.json.

`my_module:fn` is what a module of the current folder, or an installed one, calls `fn`. In
config.json it is `my_module:fn#3f2a9c01`: the digits are a digest of what it is, so that a run is
not resumed with another function of the same name.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import inspect
import os
import sys
import textwrap
import types
from typing import Any

from tff_partial.core import checks

# Of their objects only plain fields are looked at.
_LIBRARIES = ("tensorflow", "tensorflow_federated", "keras")
_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_CONTAINERS = (list, tuple, dict, set, frozenset)
_OF_EVERY_CLASS = ("__module__", "__doc__", "__dict__", "__weakref__", "__firstlineno__")


# What was handed in as it is, by the name that config.json has of it.
_registered: dict[str, Any] = {}


def register(value: Any, name: str = "") -> str:
    """Make an object known by its name with the digest, and return that.

    `name`, such as my_module:fn, takes the place of its own.
    """
    own, _, digest = name_of(value).partition("#")
    text = f"{name.partition('#')[0] or own}#{digest}"
    _registered[text] = value
    return text


def is_name(text: object) -> bool:
    """Return whether a value of a flag names something of the user's: `my_module:fn`."""
    if not isinstance(text, str):
        return False
    if text in _registered:
        return True
    module, _, attribute = text.partition("#")[0].partition(":")
    return bool(attribute) and all(
        part.isidentifier() for part in (*module.split("."), *attribute.split("."))
    )


def load(flag: str, text: str) -> Any:
    """Return what `my_module:fn` names; modules of the current folder come first.

    Raises:
      ValueError: In one line, if there is no such module or name, or the module cannot be imported.
    """
    if text in _registered:
        return _registered[text]
    expected, received = f"{flag} my_module:name must name", f"Received: {flag}={text!r}"
    module_name, _, attribute = text.partition("#")[0].partition(":")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0] and error.name != module_name:
            raise ValueError(
                f"{expected} a module that can be imported. {received}: {error}"
            ) from error
        raise ValueError(f"{expected} a module in this folder or installed. {received}") from None
    except Exception as error:  # whatever a user's module raises
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ValueError(
            f"{expected} a module that can be imported. {received}: {reason}"
        ) from error
    try:
        return functools.reduce(getattr, attribute.split("."), found)
    except AttributeError:
        known = sorted(name for name in vars(found) if not name.startswith("_"))
        raise ValueError(
            f"{expected} something in {module_name} ({', '.join(known[:20])}). {received}"
            f"{checks.did_you_mean(attribute, known)}"
        ) from None


def name_of(value: Any) -> str:
    """Return what config.json calls a function or an object: its name and a digest of what it is.

    The same for the same source; formatting, comments and docstrings do not matter.
    """
    plain = inspect.unwrap(value) if isinstance(value, types.FunctionType) else value
    named = plain if hasattr(plain, "__qualname__") else type(plain)
    named = value.func if isinstance(value, functools.partial) else named
    digest = hashlib.sha256(_content(value, {}).encode()).hexdigest()[:8]
    return f"{named.__module__}:{named.__qualname__}#{digest}"


def short_name(function: Any) -> str:
    """Return the name of a function or of an object's class, as columns of metrics.csv have it."""
    given = getattr(function, "name", None)
    if isinstance(given, str):
        return given
    if isinstance(function, functools.partial):
        return short_name(function.func)
    return getattr(function, "__name__", type(function).__name__)


def _content(value: Any, seen: dict[int, Any]) -> str:
    """Return a text that differs if the value does, as far as that can be told."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if id(value) in seen:
        return "again"
    seen[id(value)] = value  # which stays, and with it its id

    def content(inner: Any) -> str:
        return _content(inner, seen)

    if isinstance(value, functools.partial):
        return f"partial {content(value.func)} {content(value.args)} {content(value.keywords)}"
    if isinstance(value, types.MethodType):
        return f"method {content(value.__func__)} {content(value.__self__)}"
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_full(cell)]
        used = [value.__defaults__, value.__kwdefaults__, cells, _globals_of(value)]
        return f"{_source(value)} {content(used)}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} {[content(item) for item in value]}"
    if isinstance(value, (set, frozenset)):  # their order is another in every process
        return f"{type(value).__name__} {sorted(content(item) for item in value)}"
    if isinstance(value, dict):
        return f"dict {[(content(k), content(v)) for k, v in value.items()]}"
    if hasattr(value, "dtype") and hasattr(value, "tobytes"):  # an array
        if value.dtype == object:
            return f"{value.shape} {content(value.tolist())}"
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, type) and value.__module__.partition(".")[0] not in _LIBRARIES:
        return f"class {value.__qualname__} {content(_defined_in(value))}"
    if isinstance(value, (type, types.ModuleType)) or not hasattr(value, "__dict__"):
        return getattr(value, "__qualname__", type(value).__qualname__)
    fields = value.get_config() if hasattr(value, "get_config") else vars(value)
    own = _defined_in(type(value))
    if type(value).__module__.partition(".")[0] in _LIBRARIES:
        fields = {k: v for k, v in fields.items() if isinstance(v, _PLAIN)}
        own = []
    return f"{type(value).__module__}.{type(value).__qualname__} {content([fields, own])}"


def _globals_of(function: types.FunctionType) -> dict[str, Any]:
    """Return what a function uses of its own module: values, functions and classes."""
    namespace, own = function.__globals__, function.__module__
    used = {n: namespace[n] for n in _names_in(function.__code__) if n in namespace}
    return {
        name: value
        for name, value in sorted(used.items())
        if isinstance(value, (*_PLAIN, *_CONTAINERS))
        or hasattr(value, "tobytes")
        or (isinstance(value, (types.FunctionType, type)) and value.__module__ == own)
    }


def _names_in(code: types.CodeType) -> set[str]:
    """Return the names that code uses, that of the functions in it included."""
    inner = [_names_in(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return {*code.co_names}.union(*inner)


def _defined_in(kind: type) -> list[Any]:
    """Return the bases of a class, and the functions and values of its body."""
    known = (types.FunctionType, *_PLAIN, *_CONTAINERS)
    body = {name: _function_of(value) for name, value in sorted(vars(kind).items())}
    own = {
        name: value
        for name, value in body.items()
        if isinstance(value, known) and name not in _OF_EVERY_CLASS
    }
    # Those of other modules, such as Keras's, are not looked into.
    bases = [b if b.__module__ == kind.__module__ else b.__qualname__ for b in kind.__bases__]
    return [bases, own]


def _function_of(value: Any) -> Any:
    """Return the function of a method of a class, a static one or a property."""
    if isinstance(value, (staticmethod, classmethod)):
        return value.__func__
    return value.fget if isinstance(value, property) else value


def _is_full(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _source(function: types.FunctionType) -> str:
    """Return the source as a syntax tree; the byte code of lambdas and of code without a file."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function.__code__)))
        (definition,) = tree.body
        if isinstance(definition, ast.FunctionDef):
            if ast.get_docstring(definition) is not None:
                definition.body = definition.body[1:]
            return ast.dump(definition)
    except (OSError, TypeError, SyntaxError, ValueError):
        pass
    return _byte_code(function.__code__)


def _byte_code(code: types.CodeType) -> str:
    constants = [
        _byte_code(c) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {constants}"
