"""Reading untrusted files: regular files only, up to a maximum size; and digests of large files."""

from __future__ import annotations

import hashlib
from typing import BinaryIO

from mlgo_clang.files import MAX_BYTES as MAX_BYTES
from mlgo_clang.files import open_untrusted as open_untrusted
from mlgo_clang.files import read_untrusted as read_untrusted

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
