"""Event files, as TensorBoard writes them."""

from __future__ import annotations

import struct


def event(step: int, tag: str, value: float) -> bytes:
    """A record of an event file; its checksums are not looked at."""
    summary = b"\x0a" + bytes([len(tag)]) + tag.encode() + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(summary)]) + summary
    data = b"\x09" + struct.pack("<d", 1.5e9) + b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary
    return struct.pack("<Q", len(data)) + b"sum!" + data + b"sum!"
