"""The check of arguments by their declared types."""

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from mlgo_gym.errors import MlgoError, did_you_mean
from mlgo_gym.storage.json_files import matches

_WORDS = {
    str: "a string",
    bool: "True or False",
    int: "a whole number",
    float: "a finite number",
    NoneType: "None",
    os.PathLike: "a path",
    Any: "a value",
}


def keyword_parameters(kind: type) -> dict[str, inspect.Parameter]:
    """Return the keyword parameters of a class by name: after those of its bases, to which it passes the others."""
    initializers = [vars(base)["__init__"] for base in reversed(kind.__mro__) if "__init__" in vars(base)]
    signatures = [inspect.signature(initializer, eval_str=True) for initializer in initializers]
    parameters = [parameter for signature in signatures for parameter in signature.parameters.values()]
    return {parameter.name: parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def check_types(options: Any) -> None:
    """Raise `MlgoError` if a value of a dataclass has another type than its field, or is NaN or infinite.

    NumPy's scalars become Python's.
    """
    types = get_type_hints(type(options))
    for declared in fields(options):
        value = getattr(options, declared.name)
        check_type(declared.name, value, types[declared.name])
        object.__setattr__(options, declared.name, plain(value))


def plain(value: Any) -> Any:
    """Return a value with Python's scalars instead of NumPy's, also in a list or a dict."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value))
    if isinstance(value, dict):
        return {key: plain(element) for key, element in value.items()}
    if isinstance(value, np.floating):
        return float(value)
    return value.item() if isinstance(value, np.generic) else value


def check_type(name: str, value: object, form: Any) -> None:
    """Raise `MlgoError` unless a value has a type, as `matches()`; the message has the type in words."""
    if not matches(value, form):
        is_list = Sequence in (get_origin(form), *map(get_origin, get_args(form)))
        hint = f"write {value.split()!r}" if isinstance(value, str) and is_list else f"correct {name}"
        raise MlgoError(f"expected {name} as {_words(form)}, got {value!r:.200}; {hint}")


def _words(form: Any) -> str:
    origin, parts = get_origin(form), get_args(form)
    if origin in (Union, UnionType):
        *others, last = dict.fromkeys(map(_words, parts))
        return f"{', '.join(others)} or {last}" if others else last
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if origin is Sequence:
        return f"a list of {_words(parts[0]).removeprefix('a ')}s"
    if origin is Mapping:
        return f"a dict from {_words(parts[0]).removeprefix('a ')}s to {_words(parts[1]).removeprefix('a ')}s"
    return _WORDS.get(origin or form) or f"a {form.__name__}"


def whole_number(name: str, value: Any, minimum: int) -> int:
    """Return an argument that is an integer from a minimum on; raise `MlgoError` for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < minimum:
        raise MlgoError(f"expected {name} ≥ {minimum}, got {value!r}; pass a whole number")
    return int(value)


def read_options(options: object, names: Sequence[str]) -> dict[str, Any]:
    """Return the options of a reset as a new dict; raise `MlgoError` for another type, or a name not among some."""
    check_type("options", options, Mapping[str, Any] | None)
    values = dict(options) if isinstance(options, Mapping) else {}
    if unknown := sorted(map(str, values.keys() - set(names))):
        hint = did_you_mean(unknown[0], names) or "; omit it"
        raise MlgoError(f"expected options of reset() among {', '.join(names)}, got {unknown}{hint}")
    return values
