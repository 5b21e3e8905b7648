"""JSON that somebody else wrote: whatever is wrong with it is one kind of error."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Union, get_args, get_origin, get_type_hints


def parse_json(data: str | bytes) -> Any:
    """Return what a JSON text says.

    Raises:
        ValueError: it is no JSON, no UTF-8, or nested more deeply than Python follows.
    """
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_fields(record: type, value: object) -> dict[str, Any]:
    """Return a decoded JSON object, after holding its values against the annotations of a dataclass.

    A list stands for a tuple, and a whole number for a float. What the object lacks is left to the dataclass.

    Args:
        record: the dataclass; its annotations are made of `str`, `int`, `float`, `bool`, `None`, `Any`, `dict`,
            `Mapping`, `tuple` and unions of these.
        value: the decoded JSON.

    Raises:
        TypeError: it is no object, or a value is of another type.
        ValueError: a number is not finite, or beyond what a float holds.
    """
    if not isinstance(value, dict):
        raise TypeError(f"an object was wanted, found {type(value).__name__}")
    hints = get_type_hints(record)
    for name, each in value.items():
        if name in hints and not _is(each, hints[name]):
            raise TypeError(f"{name} was to be {hints[name]}, found {str(each)[:80]}")
    return value


def check_values(record: Any) -> None:
    """Hold what a dataclass was made of against its annotations, as `check_fields()` does before.

    Raises:
        TypeError: a value is of another type.
        ValueError: a number is not finite, or beyond what a float holds.
    """
    check_fields(type(record), {each.name: getattr(record, each.name) for each in fields(record)})


def _is(value: object, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_is(value, each) for each in arguments)
    if hint is None or hint is type(None):
        return value is None
    if hint in (int, float):
        return _is_number(value, hint)
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(_is(each, arguments[1]) for each in value.values())
    if origin in (tuple, list, Sequence):
        if not isinstance(value, (list, tuple)):
            return False
        each_of = arguments[:1] * len(value) if arguments[-1] is Ellipsis or origin is not tuple else arguments
        return len(each_of) == len(value) and all(map(_is, value, each_of))
    return isinstance(value, hint)


def _is_number(value: Any, kind: type[int] | type[float]) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, kind)):
        return False
    try:
        if math.isfinite(value):
            return True
    except OverflowError:
        pass
    raise ValueError(f"a finite number was wanted, found {str(value)[:80]}")
