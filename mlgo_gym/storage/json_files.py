"""Checks of untrusted JSON, and append-only files of JSON lines. One process at a time writes; each line is durable."""

import fcntl
import json
import math
import os
import re
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from mlgo_clang.files import MAX_BYTES, open_untrusted
from mlgo_gym.cache import errors_name_file, parse_json
from mlgo_gym.errors import MlgoError

_SYNCHRONIZE_SECONDS = 1.0

_UNFINISHED = re.compile(r"\..+\.(\d+)\.[0-9a-f]{16}")
"""Name of a temporary file of `write_atomically()`, with the process that writes it."""


def check_fields(record: type, value: object) -> dict[str, Any]:
    """Return a decoded JSON object after checking the types of its values against a dataclass, or raise `TypeError`."""
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, got {type(value).__name__}")
    hints = get_type_hints(record)
    for name, field_value in value.items():
        if name in hints and not matches(field_value, hints[name]):
            raise TypeError(f"expected {name} of type {hints[name]}, got {str(field_value)[:80]!r}")
    return value


def check_values(record: Any) -> None:
    """Check the fields of a dataclass instance against its annotations; raises as `check_fields()`."""
    check_fields(type(record), {field.name: getattr(record, field.name) for field in fields(record)})


def matches(value: object, form: Any) -> bool:
    """Return whether a value has the type of an annotation; a list counts as a tuple, an integer as a finite float.

    NumPy's numbers count as Python's. Booleans do not count as numbers, and strings not as sequences.
    """
    origin, parts = get_origin(form), get_args(form)
    if form is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(matches(value, part) for part in parts)
    if origin is Literal:
        return isinstance(value, str) and value in parts
    if form is bool:
        return isinstance(value, (bool, np.bool_))
    if form in (int, float):
        kinds = (int, np.integer) if form is int else (int, float, np.integer, np.floating)
        return isinstance(value, kinds) and not isinstance(value, bool) and _is_finite(value)
    if origin in (dict, Mapping):
        return (
            isinstance(value, Mapping)
            and all(map(matches, value.keys(), repeat(parts[0])))
            and all(map(matches, value.values(), repeat(parts[1])))
        )
    if origin in (tuple, list, Sequence):
        if not isinstance(value, (list, tuple)):
            return False
        each_of = parts[:1] * len(value) if parts[-1] is Ellipsis or origin is not tuple else parts
        return len(each_of) == len(value) and all(map(matches, value, each_of))
    return value is None if form is None else isinstance(value, origin or form)


def _is_finite(value: float | np.number[Any]) -> bool:
    with suppress(OverflowError):  # an integer beyond the floats
        return math.isfinite(value)
    return False


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each complete line; a partial last line is skipped, a missing file is empty.

    Raises `MlgoError` if it is not a regular file, or a line is not JSON.
    """
    if not path.exists():
        return
    try:
        file = open_untrusted(path)
    except OSError as error:
        raise MlgoError(f"expected JSON lines in {str(path)!r}, got {error}") from error
    with file:
        for number, line in enumerate(iter(partial(file.readline, MAX_BYTES), b""), start=1):
            if line.endswith(b"\n"):
                try:
                    value = parse_json(line)
                except ValueError as error:
                    raise MlgoError(f"{path}, line {number}: expected JSON, got {error}; delete the line") from error
                yield number, value
            elif len(line) == MAX_BYTES:
                raise MlgoError(
                    f"{path}, line {number}: expected at most {MAX_BYTES:,} bytes, got more; delete the line"
                )


def remove_unfinished(folder: Path) -> None:
    """Remove the temporary files in a folder of results that writers left when they were killed."""
    for path in folder.rglob(".*"):
        writer = _UNFINISHED.fullmatch(path.name)
        if writer is not None and not Path("/proc", writer[1]).exists():
            path.unlink(missing_ok=True)


class JsonLines:
    """Appends lines to a file; the first one replaces a partial last line, left by a kill.

    `is_empty` is whether the file had no line when it was opened. Raises `MlgoError` if another process writes to it,
    or it cannot be a file.
    """

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab")
        except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
            raise MlgoError(
                f"expected a file for results, got {path}: {error.strerror}; choose another output"
            ) from error
        self._path = path
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise MlgoError(f"another process writes to {str(path)!r}; wait for it, or choose another output") from None
        with path.open("rb") as file:
            self._size = sum(len(line) for line in file if line.endswith(b"\n"))
        self.is_empty = not self._size
        self._synchronized = 0.0

    def append(self, value: Any) -> None:
        """Write a line. It survives a kill of this process; a power cut loses at most the last second of lines."""
        line = json.dumps(value).encode() + b"\n"
        with errors_name_file(self._path):
            if self._file.tell() != self._size:
                self._file.truncate(self._size)
            self._file.write(line)
            self._file.flush()
            self._size += len(line)
            now = time.monotonic()
            if now - self._synchronized >= _SYNCHRONIZE_SECONDS:
                os.fsync(self._file.fileno())
                self._synchronized = now

    def close(self) -> None:
        """Release the file for other processes. Idempotent."""
        with errors_name_file(self._path):
            if not self._file.closed:
                os.fsync(self._file.fileno())
            self._file.close()
