"""The cache folder and its JSON records, digests, and atomic writes; `llvm` and `storage` share it."""

import errno
import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlgo_clang import files
from mlgo_clang.errors import MlgoError

UNWRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of writing into a folder without permission, below a file, or on a full disk."""


def cache_directory() -> Path:
    """Return the cache folder: `$MLGO_CACHE`, else the platform's for `mlgo-gym`. It may be deleted at any time."""
    return Path(files.cache_folder())


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file atomically: readers, concurrent writers and a kill leave all of it or none."""
    with errors_name_file(path):
        files.write_atomically(os.fspath(path), data)


@contextmanager
def errors_name_file(path: Path) -> Iterator[None]:
    """Set the filename of an OSError to `path`: a full disk sets none, and temporary files have other names."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename = str(path)
        raise


def parse_json(data: str | bytes) -> Any:
    """Return the value of a JSON text; raise `ValueError` for other text, and for JSON that is nested too deeply."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def key_of(*parts: object) -> str:
    """Return a key of JSON-serializable parts: their SHA-256 in hexadecimal."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def sha256_of(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file of any size, in hexadecimal."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


class JsonCache:
    """A folder of JSON records below `cache_directory()`, one file per key; any number of processes may share it."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def _path(self, key: str) -> Path:
        return cache_directory() / self._kind / key[:2] / f"{key}.json"

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the record of a key; None if it is missing or was changed."""
        data = files.read_checked(str(self._path(key)))
        return None if data is None else dict(json.loads(data))

    def remembered(self, key: str, compute: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Return the record of a key; compute and store it first if it is missing."""
        record = self.get(key)
        if record is None:
            record = dict(compute())
            self.put(key, record)
        return record

    def put(self, key: str, record: dict[str, Any]) -> None:
        """Store a record; the last of several concurrent writers wins. A cache that cannot be written only warns."""
        try:
            files.write_checked(str(self._path(key)), json.dumps(record, sort_keys=True).encode())
        except OSError as error:
            _warn_unwritable(str(cache_directory()), str(error.strerror))


class FileCache:
    """A folder of files below `cache_directory()`, each named by the SHA-256 of its contents and checked at each use.

    The `JsonCache` of the same `kind` has the digest for each key.
    """

    def __init__(self, kind: str, suffix: str = "") -> None:
        self._kind, self._suffix, self._digests = kind, suffix, JsonCache(kind)

    def _path(self, digest: str) -> Path:
        return cache_directory() / self._kind / f"{digest}{self._suffix}"

    def get(self, key: str) -> Path | None:
        """Return the file of a key; None if it is missing or was changed."""
        digest = (self._digests.get(key) or {}).get("sha256", "")
        path = self._path(digest)
        try:
            return path if digest and sha256_of(path) == digest else None
        except OSError:
            return None

    def put(self, key: str, data: bytes, mode: int = 0o666) -> Path:
        """Store a file and return it; raise `OSError` if the cache cannot be written."""
        digest = files.digest_of(data)
        path = self._path(digest)
        with errors_name_file(path):
            files.write_atomically(str(path), data, mode, durable=True)
        self._digests.put(key, {"sha256": digest})
        return path


@contextmanager
def errors_name_cache() -> Iterator[None]:
    """Replace an `OSError` of work in the cache by an `MlgoError` that names `$MLGO_CACHE`."""
    try:
        yield
    except OSError as error:
        folder = str(cache_directory())
        raise MlgoError(
            f"expected a writable cache folder with free space, got {folder!r}: {error}; set MLGO_CACHE to another"
        ) from error


@lru_cache(maxsize=8)
def _warn_unwritable(folder: str, reason: str) -> None:
    warnings.warn(
        f"the cache {folder!r} cannot be written ({reason}), so measurements are repeated in the next run; make it "
        "writable, or set $MLGO_CACHE to a writable folder",
        stacklevel=4,
    )
