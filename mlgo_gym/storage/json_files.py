"""Checks of untrusted JSON, and append-only files of JSON lines. One process at a time writes; each line is durable."""

from __future__ import annotations

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
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from mlgo_clang.files import MAX_BYTES, open_untrusted
from mlgo_gym.cache import errors_name_file, parse_json
from mlgo_gym.errors import MlgoError

_SYNCHRONIZE_SECONDS = 1.0

_UNFINISHED = re.compile(r"\..+\.(\d+)\.[0-9a-f]{16}")
"""Name of a temporary file of `write_atomically()`, with the process that writes it."""


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
