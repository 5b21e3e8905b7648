"""An object file with compressed bitcode, such as an archive bomb has."""

from __future__ import annotations

import struct
import zlib
from itertools import accumulate


def compressed_object(unpacked: int) -> bytes:
    """Return an object whose `.llvmbc` unpacks to a number of bytes."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(unpacked >> 20)) + packer.flush()
    names = b"\0.llvmbc\0.llvmcmd\0.shstrtab\0"
    contents = [struct.pack("<IIQQ", 1, 0, unpacked, 1) + packed, b"-cc1\0", names]
    offsets = list(accumulate(map(len, contents), initial=64))
    kinds = zip((1, 9, 18), (1, 1, 3), (0x800, 0, 0), offsets, map(len, contents), strict=False)
    table = b"".join(struct.pack("<IIQQQQIIQQ", name, *rest[:2], 0, *rest[2:], 0, 0, 1, 0) for name, *rest in kinds)
    header = struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, offsets[-1], 0, 64, 0, 0, 64, 4, 3)
    return b"\x7fELF\x02\x01\x01" + bytes(9) + header + b"".join(contents) + bytes(64) + table
