"""The bytes of instructions in an object, by which the smallest of several is chosen.

The driver is a package of its own that imports nothing of `mlgo_gym`; `mlgo_gym.llvm.object_file` measures the same.
"""

from __future__ import annotations

import struct

_EXECUTABLE = 4  # SHF_EXECINSTR of elf(5)


class ObjectSizeError(Exception):
    """A file is no ELF object whose sections can be read."""


def text_size(path: str) -> int:
    """Return the sum of an ELF object's executable sections in bytes.

    Args:
        path: the object, 32-bit or 64-bit, of either byte order.

    Raises:
        ObjectSizeError: it is no such object.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        data = file.read()
    if data[:4] != b"\x7fELF" or len(data) < 52 or data[4] not in (1, 2) or data[5] not in (1, 2):
        raise ObjectSizeError(f"{path} was to be an ELF object, and begins with {data[:8]!r}")
    order = "<" if data[5] == 1 else ">"
    wide = data[4] == 2
    # Flags and size of a section: the address and the offset are between them.
    section = struct.Struct(f"{order}8xQ16xQ" if wide else f"{order}8xI8xI")
    try:
        (table,) = struct.unpack_from(f"{order}Q", data, 40) if wide else struct.unpack_from(f"{order}I", data, 32)
        entry, number = struct.unpack_from(f"{order}HH", data, 58 if wide else 46)
        if not number and table:  # more sections than the field can count: the first one has their number
            number = section.unpack_from(data, table)[1]
        sections = [section.unpack_from(data, table + index * entry) for index in range(number)]
    except struct.error:
        raise ObjectSizeError(f"{path} ends before its table of sections does") from None
    return sum(size for flags, size in sections if flags & _EXECUTABLE)
