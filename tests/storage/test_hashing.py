"""Digests of files that need not fit into memory."""

from __future__ import annotations

import hashlib
import io

from mlgo_gym.storage.hashing import sha256_of, take_in


def test_a_file_has_the_digest_of_its_bytes_however_many_parts_it_is_read_in() -> None:
    for size in (0, 5, (1 << 20) - 1, (1 << 21) + 3):
        data = bytes(range(251)) * (size // 251 + 1)
        assert sha256_of(io.BytesIO(data[:size])) == hashlib.sha256(data[:size]).hexdigest()


def test_what_is_taken_in_comes_after_what_was() -> None:
    digest = hashlib.sha256(b"ab")
    take_in(digest, io.BytesIO(b"cd"))
    assert digest.digest() == hashlib.sha256(b"abcd").digest()
