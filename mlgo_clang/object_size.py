"""Sizes of objects (ELF of 32 or 64 bits, WebAssembly). `mlgo_gym.llvm` reads more of objects."""

from __future__ import annotations

import struct

from mlgo_clang.errors import MlgoError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

WASM_MAGIC = b"\0asm"
"""First bytes of a WebAssembly file."""

WASM_FILE = "a WebAssembly file"

WASM_CODE, WASM_DATA = 10, 11
"""Numbers of sections (WebAssembly core specification, section 5.5)."""

SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS = 2, 4, 8
"""Flags of an ELF section in memory and of one with instructions, and the type of one without contents (elf(5))."""


def object_size(data: bytes, metric: str = "text") -> int:
    """Return a size of an ELF or WebAssembly object in bytes; raise `MlgoError` if the data are no complete object.

    `text` are executable sections of ELF or the code section of WebAssembly; `loaded`, in addition all other contents
    of memory: the sum of the columns `text` and `data` of `size`.
    """
    if data.startswith(WASM_MAGIC):
        kinds = (WASM_CODE,) if metric == "text" else (WASM_CODE, WASM_DATA)
        return sum(end - start for kind, start, end in wasm_sections(data) if kind in kinds)
    wide, order, table, entry, count = section_table(data)
    # Type, flags and size of a section: the address and the offset are between them.
    section = struct.Struct(f"{order}4xIQ16xQ" if wide else f"{order}4xII8xI")
    sections = (section.unpack_from(data, table + number * entry) for number in range(count))
    flag = SHF_EXECINSTR if metric == "text" else SHF_ALLOC
    return sum(size for kind, flags, size in sections if flags & flag and (metric == "text" or kind != SHT_NOBITS))


def section_table(data: bytes) -> tuple[bool, str, int, int, int]:
    """Return whether an ELF object is of 64 bits, its byte order, and the offset, stride and length of its sections.

    Raises `MlgoError` if the data are no ELF object, or end before the end of the table.
    """
    if len(data) < 16 or data[:4] != b"\x7fELF":
        raise MlgoError(f"expected an ELF object, got {len(data)} bytes that begin with {data[:4]!r}")
    wide, order = data[4] == 2, "<" if data[5] == 1 else ">"
    word = order + ("Q" if wide else "I")
    try:
        (table,) = struct.unpack_from(word, data, 40 if wide else 32)
        entry, count = struct.unpack_from(order + "HH", data, 58 if wide else 46)
        if table and not count:
            # More than 65,279 sections: the number stands in the size of section 0.
            (count,) = struct.unpack_from(word, data, table + (32 if wide else 20))
    except (struct.error, OverflowError) as error:
        raise MlgoError(f"an ELF object of {len(data)} bytes is cut off: {error}") from None
    if not table:
        count = 0
    if count and (entry < (64 if wide else 40) or table + count * entry > len(data)):
        raise MlgoError(f"an ELF object of {len(data)} bytes is cut off: its section table ends behind its end")
    return wide, order, table, entry, count


def wasm_sections(data: bytes, start: int = 8, end: int | None = None) -> Iterator[tuple[int, int, int]]:
    """Yield number, start and end of each section of a WebAssembly file, or of each subsection in a part of it.

    Raises `MlgoError` if the file ends within a section.
    """
    end = len(data) if end is None else end
    while start < end:
        kind = data[start]
        size, start = read_leb128(data, start + 1, end)
        start += size
        check_end(data, start, end)
        yield kind, start - size, start


def read_leb128(data: bytes, position: int, end: int, name: str = WASM_FILE) -> tuple[int, int]:
    """Return an unsigned number of 32 bits in LEB128, and the position after it; or raise an MlgoError."""
    value = 0
    for shift in range(0, 32, 7):
        check_end(data, position + 1, end, name)
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MlgoError(f"expected numbers of at most 32 bits in {name}, got more at byte {position}; it is damaged")


def check_end(data: bytes, position: int, end: int, name: str = WASM_FILE) -> None:
    """Raise an MlgoError if a position in a file of this name is behind the end of a part."""
    if position > end:
        raise MlgoError(f"expected {name}, got one that is cut off after {len(data)} bytes; it is damaged")
