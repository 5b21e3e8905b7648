"""A file of JSON lines that is only ever added to, durable line by line, by one process at a time."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.cache import naming
from mlgo_gym.storage.foreign_file import LARGEST, open_foreign
from mlgo_gym.storage.json_text import parse_json

SYNCHRONIZE_SECONDS = 1.0
"""So long after one wait for the disk there is no other."""

_BLOCK = 1 << 16


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each whole line; what a kill has left of a last line is passed over.

    Raises:
        MlgoError: it is no regular file, or a line is not JSON.
    """
    if not path.exists():
        return
    try:
        file = open_foreign(path)
    except OSError as error:
        raise MlgoError(f"{path} was to be lines of JSON, and cannot be read: {error}") from error
    with file:
        for number, line in enumerate(iter(partial(file.readline, LARGEST), b""), start=1):
            if line.endswith(b"\n"):
                yield number, _decode(line, path, number)
            elif len(line) == LARGEST:
                raise MlgoError(
                    f"{path}, line {number}, was to be JSON, and has more than {LARGEST:,} bytes; delete it"
                )


def _decode(line: bytes, path: Path, number: int) -> Any:
    try:
        return parse_json(line)
    except ValueError as error:
        raise MlgoError(f"{path}, line {number}, was to be JSON, and is not: {error}; delete it") from error


def _whole_lines(path: Path) -> int:
    """Return the bytes of a file up to its last end of a line."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _BLOCK)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


class JsonLines:
    """Adds lines to a file.

    Args:
        path: the file; made if need be.

    Attributes:
        is_empty: whether the file had no line when it was opened.

    Raises:
        MlgoError: another process adds to it now.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = path.open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise MlgoError(f"another process writes to {path} now; wait for it, or choose another output") from None
        # What a kill has left of a line is cut off, so that the next one begins anew.
        kept = _whole_lines(path)
        self._file.truncate(kept)
        self.is_empty = not kept
        self._synchronized = 0.0

    def append(self, value: Any) -> None:
        """Write a line; when this returns no end of this process can lose it.

        What a power cut can lose was written within a moment of what it spares: where lines come fast, the disk is not
        waited for at each.
        """
        with naming(self._path):
            self._file.write(json.dumps(value).encode() + b"\n")
            self._file.flush()
            now = time.monotonic()
            if now - self._synchronized >= SYNCHRONIZE_SECONDS:
                os.fsync(self._file.fileno())
                self._synchronized = now

    def close(self) -> None:
        """Let others write. Idempotent."""
        with naming(self._path):
            if not self._file.closed:
                os.fsync(self._file.fileno())
            self._file.close()

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
