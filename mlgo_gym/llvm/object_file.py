"""Section sizes of an ELF object."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mlgo_gym.errors import MlgoError

_SHT_NOBITS = 8
_SHF_WRITE, _SHF_ALLOC, _SHF_EXECINSTR = 1, 2, 4


@dataclass(frozen=True, slots=True)
class ObjectSizes:
    """What an object file weighs, in bytes.

    Attributes:
        text: the sum of its executable sections (`SHF_EXECINSTR`): the instructions.
        llvm_size: the first column of `llvm-size`: allocated sections that are not written to, which also counts
            read-only data and unwind tables (llvm/tools/llvm-size/llvm-size.cpp, Berkeley format).
        object: the whole file.
    """

    text: int
    llvm_size: int
    object: int


def object_sizes(data: bytes) -> ObjectSizes:
    """Measure an ELF object file, 32 or 64 bits, either byte order.

    Raises:
        MlgoError: `data` is not a whole ELF file.
    """
    if len(data) < 16 or data[:4] != b"\x7fELF":
        raise MlgoError(f"an ELF object was expected, found {len(data)} bytes that begin with {data[:4]!r}")
    wide = data[4] == 2
    order = "<" if data[5] == 1 else ">"
    try:
        if wide:
            (table,) = struct.unpack_from(order + "Q", data, 40)
            stride, count = struct.unpack_from(order + "HH", data, 58)
            layout = struct.Struct(order + "IIQQQQ")
        else:
            (table,) = struct.unpack_from(order + "I", data, 32)
            stride, count = struct.unpack_from(order + "HH", data, 46)
            layout = struct.Struct(order + "IIIIII")
        if table and not count:
            # More than 65,279 sections: the number stands in the size of section 0.
            count = layout.unpack_from(data, table)[5]
        if count and (stride < layout.size or table + count * stride > len(data)):
            raise MlgoError(f"an ELF object of {len(data)} bytes is cut off: its section table ends behind its end")
        text = read_only = 0
        for position in range(table, table + count * stride, stride or 1):
            _, kind, flags, _, place, size = layout.unpack_from(data, position)
            if kind != _SHT_NOBITS and place + size > len(data):
                raise MlgoError(f"an ELF object of {len(data)} bytes is cut off: a section ends at {place + size}")
            if flags & _SHF_EXECINSTR:
                text += size
            if flags & _SHF_ALLOC and kind != _SHT_NOBITS and (flags & _SHF_EXECINSTR or not flags & _SHF_WRITE):
                read_only += size
    except struct.error as error:
        raise MlgoError(f"an ELF object of {len(data)} bytes is cut off: {error}") from None
    return ObjectSizes(text, read_only, len(data))
