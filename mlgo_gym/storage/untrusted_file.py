"""Reading untrusted files: regular files only, up to a maximum size; and digests of large files."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 1 << 28
"""Default maximum size of a file that is read into memory, in bytes."""


def open_untrusted(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file, or a link to one, for reading in binary; raise `OSError` for anything else.

    A pipe would block until a writer opens it, and a device may have no end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "expected a regular file, got a pipe, a device or a folder", os.fspath(path))
    return os.fdopen(descriptor, "rb")


def read_untrusted(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> bytes:
    """Return the contents of a regular file; raise `OSError` for anything else, and above `max_bytes`."""
    with open_untrusted(path) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        size = Path(path).stat().st_size
        raise OSError(errno.EFBIG, f"expected at most {max_bytes:,} bytes, got {size:,}", os.fspath(path))
    return data


_CHUNK = 1 << 20


def update_from_file(digest: hashlib._Hash, file: BinaryIO) -> None:
    """Add the rest of a file that is open in binary."""
    while chunk := file.read(_CHUNK):
        digest.update(chunk)


def sha256_of(file: BinaryIO) -> str:
    """Return the SHA-256 of the rest of a file that is open in binary, in hexadecimal."""
    digest = hashlib.sha256()
    update_from_file(digest, file)
    return digest.hexdigest()
