"""Symbols of an ELF object as a linker treats them: functions that it merges, and calls that get a stub."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mlgo_gym.llvm.object_file import SHT_RELA, read_elf
from mlgo_gym.llvm.relocations import RELA
from mlgo_gym.llvm.symbol_table import SymbolTable, read_symbol_table

STUB_BYTES = 16
"""Bytes of an entry of the procedure linkage table, on x86-64 and AArch64."""

_SHF_GROUP = 0x200
_CALLS = {62: (4,), 183: (282, 283)}
"""Types of relocations of calls by machine: `R_X86_64_PLT32`; `R_AARCH64_JUMP26` and `R_AARCH64_CALL26`."""


@dataclass(frozen=True, slots=True)
class LinkedSymbols:
    """The symbols of an object.

    Attributes:
        shared: Functions of which a linker keeps one copy: those in section groups (elf(5), `SHT_GROUP`), such as
            inline functions and templates of C++. Clang emits `linkonce_odr` and `weak_odr` functions this way.
        called: Functions of default visibility that the object calls. A shared library calls them through its procedure
            linkage table, because other files may replace them.
    """

    shared: frozenset[str] = frozenset()
    called: frozenset[str] = frozenset()


def linked_symbols(data: bytes) -> LinkedSymbols:
    """Return the symbols of an object; none without a symbol table, and no calls on other machines.

    Raises:
        MlgoError: `data` is not a whole ELF file.
    """
    table = read_symbol_table(read_elf(data))
    if table is None:
        return LinkedSymbols()
    grouped = np.append(table.elf.sections["flags"] & _SHF_GROUP != 0, False)
    shared = table.functions & table.visible & grouped[np.minimum(table.sections, len(table.elf.sections))]
    names = (frozenset(table.names(table.symbols[chosen])) for chosen in (shared, _called(table)))
    return LinkedSymbols(*names)


def _called(table: SymbolTable) -> npt.NDArray[np.bool_]:
    """Return which symbols are called, bool of shape (symbols,)."""
    called = np.zeros(len(table.symbols), bool)
    kinds = _CALLS.get(table.elf.machine, ())
    if not kinds or not table.elf.wide or table.elf.order != "<":
        return called
    for index in np.flatnonzero(table.elf.sections["type"] == SHT_RELA).tolist():
        info = table.elf.table(index, RELA)["info"]
        symbols = (info[np.isin(info & 0xFFFFFFFF, kinds)] >> 32).astype(np.int64)
        called[symbols[symbols < len(called)]] = True
    is_default: npt.NDArray[np.bool_] = table.symbols["other"] & 3 == 0
    return called & table.visible & is_default
