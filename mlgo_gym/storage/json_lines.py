"""Append-only files of JSON lines, durable line by line, written by one process at a time."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from typing_extensions import Self

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.cache import errors_name_file
from mlgo_gym.storage.json_text import parse_json
from mlgo_gym.storage.untrusted_file import MAX_BYTES, open_untrusted

SYNCHRONIZE_SECONDS = 1.0
"""Minimum time between two waits for the disk, in seconds."""


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


class JsonLines:
    """Appends lines to a file; a partial last line, left by a kill, is removed.

    `is_empty` is whether the file had no line when it was opened.

    Raises:
        MlgoError: Another process writes to the file.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = path.open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise MlgoError(f"another process writes to {str(path)!r}; wait for it, or choose another output") from None
        with path.open("rb") as file:
            size = sum(len(line) for line in file if line.endswith(b"\n"))
        self._file.truncate(size)
        self.is_empty = not size
        self._synchronized = 0.0

    def append(self, value: Any) -> None:
        """Write a line. It survives a kill of this process; a power cut loses at most the last second of lines."""
        with errors_name_file(self._path):
            self._file.write(json.dumps(value).encode() + b"\n")
            self._file.flush()
            now = time.monotonic()
            if now - self._synchronized >= SYNCHRONIZE_SECONDS:
                os.fsync(self._file.fileno())
                self._synchronized = now

    def close(self) -> None:
        """Release the file for other processes. Idempotent."""
        with errors_name_file(self._path):
            if not self._file.closed:
                os.fsync(self._file.fileno())
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
