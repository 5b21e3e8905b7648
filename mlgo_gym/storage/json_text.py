"""Untrusted JSON: parsing (`mlgo_clang.json_cache`), and checking values against the annotations of a dataclass."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from mlgo_clang.json_cache import parse_json as parse_json


def check_fields(record: type, value: object) -> dict[str, Any]:
    """Return a decoded JSON object after checking its values against the annotations of a dataclass.

    A list is accepted for a tuple, and an integer for a float. Missing fields are not an error. The annotations consist
    of `str`, `int`, `float`, `bool`, `None`, `Any`, `dict`, `Mapping`, `tuple` and unions of these.

    Raises:
        TypeError: It is not an object, or a value has another type.
        ValueError: A number is not finite, or exceeds the range of a float.
    """
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, got {type(value).__name__}")
    hints = get_type_hints(record)
    for name, field_value in value.items():
        if name in hints and not _is(field_value, hints[name]):
            raise TypeError(f"expected {name} of type {hints[name]}, got {str(field_value)[:80]!r}")
    return value


def check_values(record: Any) -> None:
    """Check the fields of a dataclass instance against its annotations; raises as `check_fields()`."""
    check_fields(type(record), {field.name: getattr(record, field.name) for field in fields(record)})


def _is(value: object, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_is(value, member) for member in arguments)
    if hint is None or hint is type(None):
        return value is None
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool) and _is_finite(value)
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(_is(member, arguments[1]) for member in value.values())
    if origin in (tuple, list, Sequence):
        if not isinstance(value, (list, tuple)):
            return False
        each_of = arguments[:1] * len(value) if arguments[-1] is Ellipsis or origin is not tuple else arguments
        return len(each_of) == len(value) and all(map(_is, value, each_of))
    return isinstance(value, hint)


def _is_finite(value: float) -> bool:
    with suppress(OverflowError):
        if math.isfinite(value):
            return True
    raise ValueError(f"expected a finite number, got {str(value)[:80]}")
