"""Which file it is, whatever its name."""

from __future__ import annotations

import os

FileId = tuple[int, int]
"""A file, whatever its name: device and inode."""


def file_id(status: os.stat_result) -> FileId:
    """Return what identifies the file that a status describes."""
    return status.st_dev, status.st_ino
