"""What is measured once and kept on disk: where it lies, and writes that no kill can tear."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import platformdirs

from mlgo_gym.storage.json_text import parse_json

UNWRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""How writing fails into a folder that others share, or on a disk that is full."""


def cache_directory() -> Path:
    """Return the folder under which everything is cached.

    `$MLGO_CACHE` if it is set, else the platform's cache folder for `mlgo-gym`. It is safe to delete at any time.
    """
    chosen = os.environ.get("MLGO_CACHE")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("mlgo-gym"))


def key_of(*parts: object) -> str:
    """Return a hexadecimal SHA-256 key of JSON-able parts."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader, a concurrent writer or a kill only ever sees all of it or none of it.

    Raises:
        OSError: it cannot be written; it names the file.
    """
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not mkstemp, whose files nobody else may read.
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}")
        try:
            with temporary.open("xb") as file:
                file.write(data)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have errors of the system name the file that the user knows: what is full does not, and parts have odd names."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename = str(path)
        raise


class JsonCache:
    """A folder of JSON records, one small file per key, shared by any number of processes.

    Args:
        kind: the folder below `cache_directory()`, for instance `"baselines"`.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def _path(self, key: str) -> Path:
        return cache_directory() / self._kind / key[:2] / f"{key}.json"

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the record of a key, or None when there is none, or none that can be read."""
        try:
            record = parse_json(self._path(key).read_bytes())
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) else None

    def put(self, key: str, record: dict[str, Any]) -> None:
        """Keep a record; the last of several concurrent writers wins. Where nothing can be written, none is kept."""
        try:
            write_atomically(self._path(key), json.dumps(record, sort_keys=True).encode())
        except OSError as error:
            if error.errno not in UNWRITABLE:
                raise
            _say_unwritable(str(cache_directory()), str(error.strerror))


@lru_cache(maxsize=8)
def _say_unwritable(folder: str, why: str) -> None:
    warnings.warn(
        f"the cache {folder} cannot be written ({why}): what is measured is not kept, and measured again the next "
        "time; make it writable, or set $MLGO_CACHE to a folder that is",
        stacklevel=4,
    )
