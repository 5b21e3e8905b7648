"""Sizes of an object file, and the sections of an ELF object: 32 or 64 bits, either byte order."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.wasm_file import MAGIC, read_wasm

SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_SYMTAB_SHNDX = 2, 4, 8, 18
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4

_SECTION = (
    *(("name", 4), ("type", 4), ("flags", 8), ("address", 8), ("offset", 8)),
    *(("size", 8), ("link", 4), ("info", 4), ("align", 8), ("entry", 8)),
)
"""The fields of a section header of 64 bits and their bytes; with 32 bits all have four."""


@dataclass(frozen=True, slots=True)
class ElfFile:
    """An ELF object, as far as its section table goes (elf(5)).

    Attributes:
        data: the whole file.
        wide: whether it is of 64 bits.
        order: `"<"` or `">"`, the byte order.
        sections: the section table: a structured array with `type`, `flags`, `offset`, `size`, `link` and `entry`, the
            bytes of each entry where the section is a table.
    """

    data: bytes
    wide: bool
    order: str
    sections: npt.NDArray[Any]

    @property
    def machine(self) -> int:
        """The number of its architecture, `e_machine`."""
        return int.from_bytes(self.data[18:20], "little" if self.order == "<" else "big")

    @property
    def executable(self) -> npt.NDArray[np.bool_]:
        """Which sections hold instructions, bool of shape (number of sections,)."""
        mask: npt.NDArray[np.bool_] = (self.sections["flags"] & SHF_EXECINSTR) != 0
        return mask

    def contents(self, section: int) -> memoryview:
        """Return the bytes of a section."""
        header = self.sections[section]
        start = int(header["offset"])
        return memoryview(self.data)[start : start + int(header["size"])]

    def table(self, section: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a section that is a table as an array of its entries.

        Raises:
            MlgoError: its entries are of another size, or it does not end with one.
        """
        dtype = np.dtype(dtype)
        entry, raw = int(self.sections[section]["entry"]), self.contents(section)
        if entry != dtype.itemsize or len(raw) % dtype.itemsize:
            raise MlgoError(
                f"expected a table with entries of {dtype.itemsize} bytes in section {section} of an ELF object, "
                f"got {len(raw)} bytes with entries of {entry}; the object is damaged"
            )
        return np.frombuffer(raw, dtype)


def read_elf(data: bytes) -> ElfFile:
    """Read the section table of an ELF object.

    Raises:
        MlgoError: `data` is not a whole ELF file.
    """
    if len(data) < 16 or data[:4] != b"\x7fELF":
        raise MlgoError(f"expected an ELF object, got {len(data)} bytes that begin with {data[:4]!r}")
    wide, order = data[4] == 2, "<" if data[5] == 1 else ">"
    try:
        (table,) = struct.unpack_from(order + ("Q" if wide else "I"), data, 40 if wide else 32)
        stride, count = struct.unpack_from(order + "HH", data, 58 if wide else 46)
        if table and not count:
            # More than 65,279 sections: the number stands in the size of section 0.
            (count,) = struct.unpack_from(order + ("Q" if wide else "I"), data, table + (32 if wide else 20))
    except (struct.error, OverflowError) as error:
        raise MlgoError(f"an ELF object of {len(data)} bytes is cut off: {error}") from None
    if not table:
        count = 0
    fields = [(name, f"{order}u{size if wide else 4}") for name, size in _SECTION]
    least = sum(size if wide else 4 for _, size in _SECTION)
    if count and (stride < least or table + count * stride > len(data)):
        raise MlgoError(f"an ELF object of {len(data)} bytes is cut off: its section table ends behind its end")
    dtype = np.dtype([*fields, ("rest", f"V{max(stride, least) - least}")])
    sections = np.frombuffer(data, dtype, count, table if count else 0)
    held = sections[sections["type"] != SHT_NOBITS]
    # Not by their sum, which may be beyond 64 bits.
    behind = (held["offset"] > len(data)) | (held["size"] > len(data) - np.minimum(held["offset"], len(data)))
    if behind.any():
        first = held[behind][0]
        end = int(first["offset"]) + int(first["size"])
        raise MlgoError(f"an ELF object of {len(data)} bytes is cut off: a section ends at {end}")
    return ElfFile(data, wide, order, sections)


@dataclass(frozen=True, slots=True)
class ObjectSizes:
    """The sizes of an object file, in bytes.

    Attributes:
        text: the instructions: the sum of the executable sections of ELF (`SHF_EXECINSTR`), or the contents of the
            code section of WebAssembly, without imports, data and names.
        llvm_size: the first column of `llvm-size` (llvm/tools/llvm-size/llvm-size.cpp, Berkeley format): for ELF the
            allocated sections that are not written to, which also counts read-only data and unwind tables; for
            WebAssembly the code section.
        object: the whole file.
    """

    text: int
    llvm_size: int
    object: int


def object_sizes(data: bytes) -> ObjectSizes:
    """Measure an object file: ELF of 32 or 64 bits in either byte order, or WebAssembly.

    Raises:
        MlgoError: `data` is not a whole object file.
    """
    if data[:4] == MAGIC:
        wasm = read_wasm(data)
        return ObjectSizes(wasm.code, wasm.code, wasm.size)
    elf = read_elf(data)
    flags, sizes = elf.sections["flags"], elf.sections["size"]
    code = elf.executable
    kept = (flags & SHF_ALLOC != 0) & (elf.sections["type"] != SHT_NOBITS) & (code | (flags & SHF_WRITE == 0))
    # Not numpy's sum, which a damaged file can drive beyond 64 bits.
    return ObjectSizes(sum(sizes[code].tolist()), sum(sizes[kept].tolist()), len(data))
