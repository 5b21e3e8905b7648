"""Inputs of several files, with a mark between them."""

from __future__ import annotations

MARK = b"\n=====\n"


def join(*parts: bytes) -> bytes:
    """Return several files as one input."""
    return MARK.join(parts)


def split(data: bytes, count: int) -> list[bytes]:
    """Return the files of an input; missing ones are empty."""
    parts = data.split(MARK, count - 1)
    return parts + [b""] * (count - len(parts))
