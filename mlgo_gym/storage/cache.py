"""The cache folder, and atomic writes; `mlgo_clang.json_cache` has the cache of JSON records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlgo_clang import files
from mlgo_clang.json_cache import UNWRITABLE as UNWRITABLE
from mlgo_clang.json_cache import JsonCache as JsonCache
from mlgo_clang.json_cache import key_of as key_of
from mlgo_clang.json_cache import sha256_of as sha256_of


def cache_directory() -> Path:
    """Return the cache folder: `$MLGO_CACHE`, else the platform's for `mlgo-gym`. It may be deleted at any time."""
    return Path(files.cache_folder())


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file atomically: readers, concurrent writers and a kill leave all of it or none.

    Raises:
        OSError: The file cannot be written; its `filename` is `path`.
    """
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
