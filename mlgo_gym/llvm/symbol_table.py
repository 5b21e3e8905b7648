"""The symbols of an ELF object: names, kinds, and their places in sections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.object_file import SHT_SYMTAB, SHT_SYMTAB_SHNDX, ElfFile

_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_SHN_LORESERVE, _SHN_XINDEX = 0xFF00, 0xFFFF
_SYMBOL_WIDE = [("name", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2"), ("value", "u8"), ("size", "u8")]
_SYMBOL_NARROW = [("name", "u4"), ("value", "u4"), ("size", "u4"), ("info", "u1"), ("other", "u1"), ("section", "u2")]


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
        kinds = self.symbols["info"] & 0xF
        named = (kinds == _STT_FUNC) | (kinds == _STT_GNU_IFUNC)
        mask: npt.NDArray[np.bool_] = named & (self.symbols["size"] > 0) & (self.sections < len(self.elf.sections))
        return mask

    @property
    def visible(self) -> npt.NDArray[np.bool_]:
        """Which symbols other objects can refer to, bool of shape (symbols,): all but those of local binding."""
        mask: npt.NDArray[np.bool_] = self.symbols["info"] >> 4 != 0
        return mask

    def names(self, chosen: npt.NDArray[Any]) -> list[str]:
        """Return the names of some of the symbols.

        Raises:
            MlgoError: the object is damaged.
        """
        section = int(self.elf.sections["link"][self.index])
        if section >= len(self.elf.sections):
            raise MlgoError(
                f"an ELF object has its names in section {section} of {len(self.elf.sections)}: it is damaged"
            )
        strings = bytes(self.elf.contents(section))
        offsets: list[int] = chosen["name"].tolist()
        try:
            return [strings[at : strings.index(b"\0", at)].decode(errors="surrogateescape") for at in offsets]
        except ValueError:
            raise MlgoError(
                f"an ELF object has a name behind its {len(strings)} bytes of names: it is damaged"
            ) from None


def read_symbol_table(elf: ElfFile) -> SymbolTable | None:
    """Return the symbol table of an object, or None where it has none: it was stripped.

    Raises:
        MlgoError: the object is damaged.
    """
    tables = np.flatnonzero(elf.sections["type"] == SHT_SYMTAB)
    if not len(tables):
        return None
    table = int(tables[0])
    dtype = np.dtype([(name, elf.order + kind) for name, kind in (_SYMBOL_WIDE if elf.wide else _SYMBOL_NARROW)])
    symbols = elf.table(table, dtype)
    return SymbolTable(elf, table, symbols, _section_numbers(elf, table, symbols["section"]))


def _section_numbers(elf: ElfFile, table: int, short: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return in which section each symbol is; the number of sections for what is in none."""
    numbers = short.astype(np.int64)
    extended = np.flatnonzero((elf.sections["type"] == SHT_SYMTAB_SHNDX) & (elf.sections["link"] == table))
    if len(extended):
        # More than 65,279 sections: their numbers stand in a table of their own.
        full = elf.table(int(extended[0]), elf.order + "u4")
        if len(full) != len(numbers):
            raise MlgoError(
                f"an ELF object has {len(numbers)} symbols and the sections of {len(full)} in a table of their own: it "
                "is damaged"
            )
        numbers = np.where(short == _SHN_XINDEX, full.astype(np.int64), numbers)
        reserved = (short >= _SHN_LORESERVE) & (short != _SHN_XINDEX)
    else:
        reserved = short >= _SHN_LORESERVE
    return np.where(reserved, len(elf.sections), numbers)
