"""A file of JSON lines that is only ever added to, durable line by line, by one process at a time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from mlgo_gym.errors import MlgoError


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each whole line; what a kill has left of a last line is passed over.

    Raises:
        MlgoError: a line is not JSON.
    """
    content = path.read_bytes() if path.exists() else b""
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), start=1):
        yield number, _decode(line, path, number)


def _decode(line: bytes, path: Path, number: int) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise MlgoError(f"{path}, line {number}, was to be JSON, and is not: {error}; delete it") from error


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
        self._file = path.open("ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise MlgoError(f"another process writes to {path} now; wait for it, or choose another output") from None
        # What a kill has left of a line is cut off, so that the next one begins anew.
        kept = path.read_bytes().rfind(b"\n") + 1
        self._file.truncate(kept)
        self.is_empty = not kept

    def append(self, value: Any) -> None:
        """Write a line; when this returns it is on disk."""
        self._file.write(json.dumps(value).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let others write. Idempotent."""
        self._file.close()

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
