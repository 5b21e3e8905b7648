"""Formats of object files: sections, symbols and relocations of ELF; code and functions of WebAssembly.

ELF (elf(5)) may have 32 or 64 bits and either byte order. WebAssembly follows section 5.5 of its core specification.
Names of an object's functions are those of its symbol table (WebAssembly/tool-conventions, Linking.md), and of a linked
module those of its `name` section.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_clang.object_size import (
    SHF_EXECINSTR,
    SHT_NOBITS,
    WASM_CODE,
    WASM_FILE,
    WASM_MAGIC,
    check_end,
    read_leb128,
    section_table,
    wasm_sections,
)
from mlgo_gym.errors import MlgoError

SHT_SYMTAB, SHT_RELA, SHT_REL, SHT_SYMTAB_SHNDX = 2, 4, 9, 18

_SECTION = (
    *(("name", 4), ("type", 4), ("flags", 8), ("address", 8), ("offset", 8)),
    *(("size", 8), ("link", 4), ("info", 4), ("align", 8), ("entry", 8)),
)
"""The fields of a section header of 64 bits and their bytes; with 32 bits all have four."""

_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_STB_WEAK = 2
_SHN_LORESERVE, _SHN_XINDEX = 0xFF00, 0xFFFF
_SYMBOL_WIDE = [("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("value", "u8"), ("size", "u8")]
_SYMBOL_NARROW = [("name", "u4"), ("value", "u4"), ("size", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2")]

_SHF_COMPRESSED = 0x800
STRIPPED = "expected an object with a symbol table, got a stripped one; compile it without stripping"
Place = tuple[int, int]
"""A section and an offset in it, in bytes."""


@dataclass(frozen=True, slots=True)
class ElfFile:
    """The sections of an ELF object (elf(5)).

    Attributes:
        data: the whole file.
        wide: whether it has 64 bits.
        order: byte order, `"<"` or `">"`.
        sections: section table, a structured array with `type`, `flags`, `offset`, `size`, `link` and `entry`, the
            bytes of an entry of a section that is a table.
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
        return np.asarray(self.sections["flags"] & SHF_EXECINSTR != 0)

    def contents(self, section: int) -> memoryview:
        """Return the bytes of a section."""
        header = self.sections[section]
        start = int(header["offset"])
        return memoryview(self.data)[start : start + int(header["size"])]

    def named_sections(self) -> dict[str, memoryview]:
        """Return the contents of uncompressed sections by name; raise `MlgoError` if the object is damaged."""
        return {
            name: self.contents(section)
            for section, name in enumerate(section_names(self))
            if name and not int(self.sections["flags"][section]) & _SHF_COMPRESSED
        }

    def table(self, section: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a section that is a table as an array; raise `MlgoError` if its entries have another size."""
        dtype = np.dtype(dtype)
        entry, raw = int(self.sections[section]["entry"]), self.contents(section)
        if entry != dtype.itemsize or len(raw) % dtype.itemsize:
            raise MlgoError(
                f"expected a table with entries of {dtype.itemsize} bytes in section {section} of an ELF object, "
                f"got {len(raw)} bytes with entries of {entry}; the object is damaged"
            )
        return np.frombuffer(raw, dtype)


def section_names(elf: ElfFile) -> list[str]:
    """Return the name of each section, in order; raise `MlgoError` if the object is damaged."""
    at = 62 if elf.wide else 50
    index = int.from_bytes(elf.data[at : at + 2], "little" if elf.order == "<" else "big")
    if index == _SHN_XINDEX and len(elf.sections):
        index = int(elf.sections["link"][0])
    if index >= len(elf.sections):
        raise MlgoError(f"an ELF object has section names in section {index} of {len(elf.sections)}: it is damaged")
    names = bytes(elf.contents(index))
    starts = elf.sections["name"].tolist()
    return [names[start : max(start, names.find(b"\0", start))].decode(errors="replace") for start in starts]


def read_elf(data: bytes) -> ElfFile:
    """Read the section table of an ELF object; raise `MlgoError` if `data` is not a whole one."""
    wide, order, table, stride, count = section_table(data)
    fields = [(name, f"{order}u{size if wide else 4}") for name, size in _SECTION]
    least = sum(size if wide else 4 for _, size in _SECTION)
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
class SymbolTable:
    """A symbol table (elf(5)).

    Attributes:
        elf: The object.
        index: Its section in the object.
        symbols: The entries: a structured array with `name` (offset in the table of names), `info`, `other`, `section`,
            `value` and `size`.
        sections: Section of each symbol, int64 of shape (symbols,); the number of sections for a symbol in none.
    """

    elf: ElfFile
    index: int
    symbols: npt.NDArray[Any]
    sections: npt.NDArray[np.int64]

    @property
    def functions(self) -> npt.NDArray[np.bool_]:
        """Which symbols are functions with a size in a section of the object, bool of shape (symbols,)."""
        named = np.isin(self.symbols["info"] & 0xF, (_STT_FUNC, _STT_GNU_IFUNC))
        return np.asarray(named & (self.symbols["size"] > 0) & (self.sections < len(self.elf.sections)))

    @property
    def visible(self) -> npt.NDArray[np.bool_]:
        """Which symbols other objects can refer to, bool of shape (symbols,): all but those of local binding."""
        return np.asarray(self.symbols["info"] >> 4 != 0)

    def names(self, symbols: npt.NDArray[Any]) -> list[str]:
        """Return the names of some of the symbols; raise `MlgoError` if the object is damaged."""
        try:
            strings = bytes(self.elf.contents(int(self.elf.sections["link"][self.index])))
            offsets: list[int] = symbols["name"].tolist()
            return [strings[at : strings.index(b"\0", at)].decode(errors="surrogateescape") for at in offsets]
        except (IndexError, ValueError):
            raise MlgoError(
                "expected an ELF object with names of its symbols, got one without; it is damaged"
            ) from None


def read_symbol_table(elf: ElfFile) -> SymbolTable | None:
    """Return the symbol table of an object; None for a stripped one. Raise `MlgoError` if it is damaged."""
    tables = np.flatnonzero(elf.sections["type"] == SHT_SYMTAB)
    if not len(tables):
        return None
    table = int(tables[0])
    dtype = np.dtype([(name, elf.order + kind) for name, kind in (_SYMBOL_WIDE if elf.wide else _SYMBOL_NARROW)])
    symbols = elf.table(table, dtype)
    return SymbolTable(elf, table, symbols, _section_numbers(elf, table, symbols["section"]))


def _section_numbers(elf: ElfFile, table: int, short: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the section of each symbol; the number of sections for a symbol in none."""
    numbers, reserved = short.astype(np.int64), short >= _SHN_LORESERVE
    extended = np.flatnonzero((elf.sections["type"] == SHT_SYMTAB_SHNDX) & (elf.sections["link"] == table))
    if len(extended):
        # With more than 65,279 sections, a table has their numbers.
        full = elf.table(int(extended[0]), elf.order + "u4")
        if len(full) != len(numbers):
            raise MlgoError(f"expected the sections of {len(numbers)} symbols, got {len(full)}; the object is damaged")
        numbers = np.where(short == _SHN_XINDEX, full.astype(np.int64), numbers)
        reserved &= short != _SHN_XINDEX
    return np.where(reserved, len(elf.sections), numbers)


def function_codes(data: bytes) -> Iterator[bytes]:
    """Yield the code of each function of an ELF object that no other object can define too, without its relocations.

    Raises `MlgoError` if the object is damaged, and yields nothing for a stripped one.
    """
    elf = read_elf(data)
    table = read_symbol_table(elf)
    if table is None:
        return
    own = table.functions & (table.symbols["info"] >> 4 != _STB_WEAK)
    for symbol, section in zip(table.symbols[own], table.sections[own].tolist(), strict=True):
        start = int(symbol["value"])
        yield bytes(elf.contents(section)[start : start + int(symbol["size"])])


def relocation_tables(table: SymbolTable) -> Iterator[tuple[int, npt.NDArray[Any], npt.NDArray[np.int64]]]:
    """Yield section, entries (`offset`, `kind`, maybe `addend`) and symbols of each table of relocations."""
    elf = table.elf
    word, shift, mask = ("8", 32, 0xFFFFFFFF) if elf.wide else ("4", 8, 0xFF)
    for index in np.flatnonzero(np.isin(elf.sections["type"], (SHT_REL, SHT_RELA))).tolist():
        addend = [("addend", f"{elf.order}i{word}")] if elf.sections["type"][index] == SHT_RELA else []
        fields = [("offset", f"{elf.order}u{word}"), ("kind", f"{elf.order}u{word}"), *addend]
        entries = elf.table(index, fields).copy()
        symbols = (entries["kind"] >> shift).astype(np.int64)
        entries["kind"] &= mask
        if len(symbols) and symbols.max() >= len(table.symbols):
            raise MlgoError(
                f"expected relocations with {len(table.symbols)} symbols, got one with symbol {symbols.max()}; the "
                "object is damaged"
            )
        yield int(elf.sections["info"][index]), entries, symbols


_CUSTOM, _IMPORT = 0, 2
_SYMBOL_TABLE, _FUNCTION_NAMES = 8, 1
_SYMBOL_FUNCTION, _SYMBOL_DATA, _SYMBOL_SECTION = 0, 1, 3
_UNDEFINED, _EXPLICIT_NAME = 0x10, 0x40


@dataclass(frozen=True, slots=True)
class WasmFile:
    """A WebAssembly file, as far as its code goes.

    Attributes:
        code: bytes of the contents of the code section.
        functions: names and bytes of each function in the code section, in order: its body and the length before it.
            Several names are aliases, and a function may have none.
    """

    code: int
    functions: tuple[tuple[tuple[str, ...], int], ...]


class ByteReader:
    """Reads the numbers and strings of a part of a file.

    Args:
        data: The file.
        start, end: Offsets of the part.
        name: Name of the file in errors, with its article.

    Attributes:
        at: Offset of the next byte.
    """

    def __init__(self, data: bytes, start: int, end: int, name: str = WASM_FILE) -> None:
        self._data, self.at, self.end, self._name = data, start, end, name

    def skip(self, size: int) -> None:
        """Skip bytes; raise `MlgoError` if there are fewer, as all methods do."""
        self.at += size
        check_end(self._data, self.at, self.end, self._name)

    def fixed(self, size: int) -> int:
        """Return an unsigned number of some bytes, little-endian."""
        self.skip(size)
        return int.from_bytes(self._data[self.at - size : self.at], "little")

    def number(self) -> int:
        """Return an unsigned number in LEB128."""
        value, self.at = read_leb128(self._data, self.at, self.end, self._name)
        return value

    def text(self) -> str:
        """Return a string after its length."""
        length = self.number()
        self.skip(length)
        return self._data[self.at - length : self.at].decode(errors="surrogateescape")

    def parts(self) -> Iterator[tuple[int, ByteReader]]:
        """Yield the number and the contents of each section, or of each subsection."""
        for kind, start, end in wasm_sections(self._data, self.at, self.end):
            yield kind, ByteReader(self._data, start, end)


def read_wasm(data: bytes) -> WasmFile:
    """Read the code and the names of functions of a WebAssembly file; raise `MlgoError` for another file."""
    if len(data) < 8 or data[:4] != WASM_MAGIC:
        raise MlgoError(f"expected a WebAssembly file, got {len(data)} bytes that begin with {data[:4]!r}")
    imported, code, sizes = 0, 0, list[int]()
    symbols, names = list[tuple[int, str]](), list[tuple[int, str]]()
    for kind, section in ByteReader(data, 8, len(data)).parts():
        if kind == _IMPORT:
            imported = sum(_is_function_import(section) for _ in range(section.number()))
        elif kind == WASM_CODE:
            code = section.end - section.at
            sizes = [_body_size(section) for _ in range(section.number())]
        elif kind == _CUSTOM:
            title = section.text()
            if title == "linking":
                section.number()  # version
                symbols = [pair for part, table in section.parts() if part == _SYMBOL_TABLE for pair in _symbols(table)]
            elif title == "name":
                names = [
                    (table.number(), table.text())
                    for part, table in section.parts()
                    if part == _FUNCTION_NAMES
                    for _ in range(table.number())
                ]
    by_index: dict[int, list[str]] = {}
    for index, name in symbols or names:
        by_index.setdefault(index, []).append(name)
    functions = tuple((tuple(by_index.get(index, ())), size) for index, size in enumerate(sizes, start=imported))
    return WasmFile(code, functions)


def _is_function_import(section: ByteReader) -> bool:
    section.text()  # module
    section.text()  # name
    kind = section.fixed(1)
    if kind in (1, 2):  # table, memory
        section.skip(kind == 1)
        has_maximum = section.fixed(1) & 1
        for _ in range(1 + has_maximum):
            section.number()
    elif kind == 3:  # global
        section.skip(2)
    else:  # function, tag
        section.skip(kind == 4)
        section.number()
    return kind == 0


def _body_size(section: ByteReader) -> int:
    start = section.at
    section.skip(section.number())
    return section.at - start


def _symbols(table: ByteReader) -> Iterator[tuple[int, str]]:
    """Yield the index and the name of each defined function in a symbol table."""
    for _ in range(table.number()):
        kind, flags = table.fixed(1), table.number()
        if kind == _SYMBOL_DATA:
            table.text()
            for _ in range(0 if flags & _UNDEFINED else 3):  # segment, offset, size
                table.number()
            continue
        index = table.number()
        has_name = kind != _SYMBOL_SECTION and (not flags & _UNDEFINED or flags & _EXPLICIT_NAME)
        name = table.text() if has_name else ""
        if kind == _SYMBOL_FUNCTION and not flags & _UNDEFINED:
            yield index, name
