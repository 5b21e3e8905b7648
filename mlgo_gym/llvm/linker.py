"""What a linker does with sections of objects: those that `--gc-sections` keeps, and those that folding merges.

lld (`ELF/ICF.cpp`) merges read-only sections with equal bytes and equal relocations. Relocations to two sections are
equal if these sections are merged, so equality is refined to a fixed point. The classes are those of lld for a program
that is linked without `--gc-sections`. Symbols that a shared library exports are not known here.
"""

import struct
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Literal

import numpy as np

from mlgo_clang.object_size import SHF_ALLOC, SHF_EXECINSTR
from mlgo_gym.llvm.object_file import ByteReader, SymbolTable, relocation_tables, section_names

Folding = Literal["none", "safe", "all"]
"""Identical code folding of a link, the value of the linker's option `--icf=`."""

Place = tuple[int, int]
"""An object and a section in it, both by number."""

_PROGBITS, _GROUP, _ADDRESS_SIGNIFICANCE = 1, 17, 0x6FFF4C03
_WRITE, _MERGE, _STRINGS, _LINK_ORDER, _GROUPED = 1, 0x10, 0x20, 0x80, 0x200
_EXPORTED = 0, 3
"""Visibility `default` and `protected` (elf(5))."""
_STT_FUNC, _STT_SECTION, _STB_WEAK, _COMDAT = 2, 3, 2, 1
_OUTPUTS = (".data.rel.ro", ".text", ".rodata", ".gcc_except_table")
_START = (".init", ".fini", ".ctors", ".dtors", ".preinit_array")
"""Beginnings of the names of sections that run without a reference."""


class Link:
    """The objects of a link, in its order.

    Raises `MlgoError` if an object is damaged, as the methods do.

    Attributes:
        tables: symbol tables of the objects.
        names: names of the symbols of each object.
        definitions: the object and the symbol, by number, that define each name.
        functions_of: names of the visible functions in each section.
    """

    def __init__(self, tables: Sequence[SymbolTable]) -> None:
        self.tables = tables
        self.names = [table.names(table.symbols) for table in tables]
        self.definitions: dict[str, tuple[int, int]] = {}
        self._discarded: set[Place] = set()
        signatures: set[str] = set()
        weak: set[str] = set()
        for number, (table, names) in enumerate(zip(tables, self.names, strict=True)):
            for group in np.flatnonzero(table.elf.sections["type"] == _GROUP).tolist():
                symbol = int(table.elf.sections["info"][group])
                flag, *members = np.frombuffer(table.elf.contents(group), f"{table.elf.order}u4").tolist() or [0]
                if flag == _COMDAT and symbol < len(names):
                    if names[symbol] in signatures:
                        self._discarded.update((number, member) for member in members)
                    signatures.add(names[symbol])
            visible = table.visible & (table.sections > 0) & (table.sections < len(table.elf.sections))
            for symbol in np.flatnonzero(visible).tolist():
                name, is_weak = names[symbol], int(table.symbols["info"][symbol]) >> 4 == _STB_WEAK
                if (number, int(table.sections[symbol])) in self._discarded:
                    continue
                if name not in self.definitions or (name in weak and not is_weak):
                    self.definitions[name] = number, symbol
                    (weak.add if is_weak else weak.discard)(name)
        self.functions_of: dict[Place, set[str]] = {}
        for name, (number, symbol) in self.definitions.items():
            if tables[number].symbols["info"][symbol] & 0xF == _STT_FUNC:
                self.functions_of.setdefault((number, int(tables[number].sections[symbol])), set()).add(name)

    def folded_sections(self, folding: Folding) -> dict[Place, int]:
        """Return the class of each section that folding may merge; sections of one class are merged."""
        if folding == "none":
            return {}
        kept = self._kept_sections(folding)
        sections = {
            (number, section): name
            for number, table in enumerate(self.tables)
            for section, name in _candidates(table)
            if (number, section) not in self._discarded and (number, section) not in kept
        }
        constants: dict[Place, list[Hashable]] = {}
        for (number, section), name in sections.items():
            elf = self.tables[number].elf
            output = next((output for output in _OUTPUTS if f"{name}.".startswith(f"{output}.")), name)
            constants[number, section] = [
                int(elf.sections["flags"][section]) & ~_GROUPED,
                output,
                bytes(elf.contents(section)),
            ]
        targets: dict[Place, list[Place]] = {place: [] for place in sections}
        for number, table in enumerate(self.tables):
            for section, entries, symbols in relocation_tables(table):
                if (place := (number, section)) in sections:
                    has_addends = "addend" in (entries.dtype.names or ())
                    addends = entries["addend"].tolist() if has_addends else [0] * len(symbols)
                    columns = entries["offset"].tolist(), entries["kind"].tolist(), symbols.tolist(), addends
                    for offset, kind, symbol, addend in zip(*columns, strict=True):
                        constant, target = self._target(number, symbol, addend)
                        constants[place].append((offset, kind, constant))
                        targets[place] += [target] if target is not None else []
        return _refine({place: tuple(parts) for place, parts in constants.items()}, targets)

    def reached_sections(self, roots: tuple[Collection[str], bool]) -> set[Place]:
        """Return the sections that `--gc-sections` keeps for some names, and for all that the file exports if so."""
        names = [section_names(table.elf) for table in self.tables]
        references: dict[Place, list[int]] = {}
        for number, table in enumerate(self.tables):
            for section, _, symbols in relocation_tables(table):
                if section < len(names[number]) and names[number][section] != ".eh_frame":
                    references.setdefault((number, section), []).extend(symbols.tolist())
        waiting = [
            (number, int(self.tables[number].sections[symbol]))
            for name, (number, symbol) in self.definitions.items()
            if name in roots[0] or (roots[1] and self.tables[number].symbols["other"][symbol] & 3 in _EXPORTED)
        ]
        for number, own in enumerate(names):
            starts = (section for section, name in enumerate(own) if name.startswith(_START) or name.isidentifier())
            waiting += [(number, section) for section in starts if (number, section) not in self._discarded]
        reached = set(waiting)
        while waiting:
            place = waiting.pop()
            homes = [self._home(place[0], symbol) for symbol in references.get(place, ())]
            found = {home[:2] for home in homes if home is not None} - reached
            reached |= found
            waiting += found
        return reached

    def _kept_sections(self, folding: Folding) -> set[Place]:
        """Return the sections whose address is significant; with `all`, only those without code."""
        kept: set[Place] = set()
        for number, table in enumerate(self.tables):
            lists = np.flatnonzero(table.elf.sections["type"] == _ADDRESS_SIGNIFICANCE).tolist()
            significant = [index for section in lists for index in _numbers(table, section)]
            for symbol in significant if lists else range(len(table.symbols)):
                if (home := self._home(number, symbol)) is not None:
                    flags = int(self.tables[home[0]].elf.sections["flags"][home[1]])
                    if folding == "safe" or not flags & SHF_EXECINSTR:
                        kept.add(home[:2])
        return kept

    def _home(self, number: int, symbol: int) -> tuple[int, int, int] | None:
        """Return the object, the section and the offset that a symbol of an object means; None outside the objects."""
        table = self.tables[number]
        if symbol >= len(table.symbols):
            return None
        if table.symbols["info"][symbol] >> 4:
            if (place := self.definitions.get(self.names[number][symbol])) is None:
                return None
            number, symbol = place
            table = self.tables[number]
        section = int(table.sections[symbol])
        return (number, section, int(table.symbols["value"][symbol])) if 0 < section < len(table.elf.sections) else None

    def _target(self, number: int, symbol: int, addend: int) -> tuple[Hashable, Place | None]:
        """Return what must be equal in the targets of two relocations, and the section that must be merged, if any."""
        entry = self.tables[number].symbols[symbol]
        home = self._home(number, symbol)
        if home is None:
            # An undefined symbol is equal to one of its name, an absolute one to one of its value.
            return (self.names[number][symbol], int(entry["value"]), addend), None
        holder, section, value = home
        elf = self.tables[holder].elf
        flags, size = int(elf.sections["flags"][section]), int(elf.sections["entry"][section])
        if not flags & _MERGE:
            return value + addend, (holder, section)
        if int(entry["info"]) & 0xF == _STT_SECTION:
            value, addend = value + addend, 0
        return (flags, size, _merged_entry(elf.contents(section), flags, size, value), addend), None


def _refine(constants: dict[Place, Hashable], targets: dict[Place, list[Place]]) -> dict[Place, int]:
    classes: dict[Place, int] = {}
    numbers: dict[Hashable, int] = {}
    for place, constant in constants.items():
        classes[place] = numbers.setdefault(constant, len(numbers))
    while True:
        before = len(numbers)
        numbers = {}
        refined = {}
        for place, own in classes.items():
            # A section that is not folded equals only itself.
            key = (own, *(classes.get(target, target) for target in targets[place]))
            refined[place] = numbers.setdefault(key, len(numbers))
        classes = refined
        if len(numbers) == before:
            return classes


def _candidates(table: SymbolTable) -> Iterator[tuple[int, str]]:
    """Yield number and name of each section of an object that may be merged, but for those that must stay unique."""
    with_landing_pads = _sections_with_landing_pads(table)
    for section, name in enumerate(section_names(table.elf)):
        kind, flags = (int(table.elf.sections[field][section]) for field in ("type", "flags"))
        is_read_only = not flags & _WRITE or f"{name}.".startswith(".data.rel.ro.")
        if (
            kind == _PROGBITS
            and flags & SHF_ALLOC
            and table.elf.sections["size"][section]
            and is_read_only
            and not flags & (_MERGE | _LINK_ORDER)
            and name not in (".init", ".fini", ".eh_frame")
            and not name.isidentifier()
            and section not in with_landing_pads
        ):
            yield section, name


def _sections_with_landing_pads(table: SymbolTable) -> set[int]:
    """Return the sections of functions with a table of exceptions: the same code may catch other types."""
    found: set[int] = set()
    names = section_names(table.elf)
    for section, entries, symbols in relocation_tables(table):
        if section >= len(names) or names[section] != ".eh_frame":
            continue
        offsets, homes = entries["offset"].tolist(), table.sections[symbols].tolist()
        data = table.elf.contents(section)
        word = struct.Struct(f"{table.elf.order}I")
        start = 0
        while start + 8 <= len(data):
            end = start + 4 + word.unpack_from(data, start)[0]
            inside = [home for offset, home in zip(offsets, homes, strict=True) if start <= offset < end]
            if any(data[start + 4 : start + 8]) and len(inside) > 1:
                found.add(inside[0])
            start = end
    return found


def _numbers(table: SymbolTable, section: int) -> Iterator[int]:
    start = int(table.elf.sections["offset"][section])
    reader = ByteReader(table.elf.data, start, start + int(table.elf.sections["size"][section]), "an ELF object")
    while reader.at < reader.end:
        yield reader.number()


def _merged_entry(data: memoryview, flags: int, size: int, start: int) -> bytes:
    if not flags & _STRINGS:
        return bytes(data[start : start + size])
    end = start
    while end < len(data) and any(data[end : end + size]):
        end += size
    return bytes(data[start:end])
