"""Digests of files that need not fit into memory."""

from __future__ import annotations

import hashlib
from typing import BinaryIO, Protocol

_PART = 1 << 20


class Digest(Protocol):
    """What `hashlib` makes."""

    def update(self, data: bytes, /) -> None:
        """Take in more bytes."""


def take_in(digest: Digest, file: BinaryIO) -> None:
    """Take in what is left of a file that is open in binary."""
    while part := file.read(_PART):
        digest.update(part)


def sha256_of(file: BinaryIO) -> str:
    """Return the SHA-256 of what is left of a file that is open in binary, in hexadecimal."""
    digest = hashlib.sha256()
    take_in(digest, file)
    return digest.hexdigest()
