"""Files that somebody else made: nothing that waits or never ends is read, and no more than fits into memory."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

LARGEST = 1 << 28
"""The most bytes that are read into memory of one file, unless a reader says otherwise."""


def open_foreign(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file to be read in binary, if it is a regular one or leads to one.

    The name may be that of a pipe, on which opening waits for a writer, or of a device without an end.

    Raises:
        OSError: as `open()` does, and where it is something else.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "a regular file was wanted, and it is none", os.fspath(path))
    return os.fdopen(descriptor, "rb")


def read_foreign(path: str | os.PathLike[str], largest: int = LARGEST) -> bytes:
    """Return the bytes of a regular file.

    Args:
        path: the file.
        largest: the most bytes that are read.

    Raises:
        OSError: as `open()` does, and where it is something else, or larger.
    """
    with open_foreign(path) as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        size = Path(path).stat().st_size
        raise OSError(errno.EFBIG, f"{largest:,} bytes at most are read, and it has {size:,}", os.fspath(path))
    return data
