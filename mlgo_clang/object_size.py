"""Bytes of instructions in an object; the smallest of several objects is chosen by them.

`mlgo_gym.llvm.object_file` measures the same.
"""

from __future__ import annotations

import struct

from mlgo_clang.errors import PolicyError

_EXECUTABLE = 4  # SHF_EXECINSTR of elf(5)
_CODE = 10  # the code section of the WebAssembly core specification, section 5.5


def text_size(path: str) -> int:
    """Return the bytes of an ELF object's executable sections, or of a WebAssembly object's code section.

    Args:
        path: the object; an ELF object is 32-bit or 64-bit, of either byte order.

    Raises:
        PolicyError: the file is no such object.
    """
    with open(path, "rb") as file:
        data = file.read()
    if data[:4] == b"\0asm":
        return _code_size(path, data)
    if data[:4] != b"\x7fELF" or len(data) < 52 or data[4] not in (1, 2) or data[5] not in (1, 2):
        found = f"{path} that starts with {data[:8]!r}"
        raise PolicyError(f"expected an ELF or WebAssembly object, got {found}; use one policy")
    order = "<" if data[5] == 1 else ">"
    is_64_bit = data[4] == 2
    # Flags and size of a section: the address and the offset are between them.
    section = struct.Struct(f"{order}8xQ16xQ" if is_64_bit else f"{order}8xI8xI")
    try:
        (table,) = struct.unpack_from(f"{order}Q", data, 40) if is_64_bit else struct.unpack_from(f"{order}I", data, 32)
        entry, number = struct.unpack_from(f"{order}HH", data, 58 if is_64_bit else 46)
        if not number and table:  # more sections than the field can count: the first one has their number
            number = section.unpack_from(data, table)[1]
        sections = [section.unpack_from(data, table + index * entry) for index in range(number)]
    except struct.error:
        raise PolicyError(f"{path} ends before its table of sections; use one policy") from None
    return sum(size for flags, size in sections if flags & _EXECUTABLE)


def _code_size(path: str, data: bytes) -> int:
    code, position = 0, 8
    try:
        while position < len(data):
            kind, shift, size = data[position], 0, 0
            while True:  # the size of a section is a number in LEB128
                position += 1
                size |= (data[position] & 0x7F) << shift
                shift += 7
                if data[position] < 0x80:
                    break
            position += 1 + size
            code += size if kind == _CODE else 0
    except IndexError:
        position = -1
    if position != len(data):
        raise PolicyError(f"{path} ends within a section; use one policy")
    return code
