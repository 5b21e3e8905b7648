"""The functions of an ELF object of which a linker keeps one copy: those in COMDAT groups."""

from __future__ import annotations

import numpy as np

from mlgo_gym.llvm.object_file import read_elf
from mlgo_gym.llvm.symbol_table import read_symbol_table

_SHF_GROUP = 0x200


def shared_functions(data: bytes) -> frozenset[str]:
    """Return the names of the functions in section groups, such as inline functions and templates of C++.

    Other objects may contain copies of them, and a linker keeps the first group of a name (elf(5), `SHT_GROUP`).
    Clang emits `linkonce_odr` and `weak_odr` functions this way. Without a symbol table there are none.

    Raises:
        MlgoError: `data` is not a whole ELF file.
    """
    elf = read_elf(data)
    table = read_symbol_table(elf)
    if table is None:
        return frozenset()
    grouped = np.append(elf.sections["flags"] & _SHF_GROUP != 0, False)
    chosen = table.functions & table.visible
    return frozenset(table.names(table.symbols[chosen & grouped[np.minimum(table.sections, len(elf.sections))]]))
