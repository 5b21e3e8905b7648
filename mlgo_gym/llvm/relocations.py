"""The relocations of an ELF object with addends: which places of its sections refer to which others."""

from __future__ import annotations

from collections import defaultdict
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.object_file import SHT_RELA
from mlgo_gym.llvm.symbol_table import SymbolTable

RELA = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
"""An entry of a table of relocations with addends (elf(5)), 64 bits, little-endian."""

Place = tuple[int, int]
"""A section and an offset in it, in bytes."""


class Relocation(NamedTuple):
    """One relocation.

    Attributes:
        offset: Offset of the relocated bytes in their section.
        kind: Its type, a number of the architecture.
        target: Place of the symbol plus the addend.
    """

    offset: int
    kind: int
    target: Place


def read_relocations(table: SymbolTable) -> dict[int, list[Relocation]]:
    """Return the relocations of each section of an object with 64 bits, little-endian, in the order of their offsets.

    Args:
        table: The symbols of the object.

    Raises:
        MlgoError: the object is damaged.
    """
    found: dict[int, list[Relocation]] = defaultdict(list)
    sections = table.elf.sections
    values = table.symbols["value"].astype(np.int64)
    for index in np.flatnonzero(sections["type"] == SHT_RELA).tolist():
        entries = table.elf.table(index, RELA)
        symbols = (entries["info"] >> 32).astype(np.int64)
        if len(symbols) and symbols.max() >= len(values):
            raise MlgoError(
                f"expected relocations with {len(values)} symbols, got one with symbol {symbols.max()}; the object is "
                "damaged"
            )
        targets = zip(table.sections[symbols].tolist(), (values[symbols] + entries["addend"]).tolist(), strict=True)
        offsets, kinds = entries["offset"].tolist(), (entries["info"] & 0xFFFFFFFF).tolist()
        found[int(sections["info"][index])] += map(Relocation, offsets, kinds, targets)
    return {section: sorted(entries, key=attrgetter("offset")) for section, entries in found.items()}
