"""Link facts: how many objects of a build define a weak function, and how often the build refers to it.

A module cannot see what the linker does. Of a `linkonce_odr` function (inline functions and templates of C++) the
linker keeps one copy. So inlining the last call in a module saves bytes only if no other object defines the function,
or if all objects do the same: the linked program has one call, perhaps in a function of which many objects have a copy.
The symbols and relocations of a plain build, or of an earlier one, show that. Facts that are out of date cost bytes,
never correctness. A linker with identical code folding also merges functions of different names, which count as copies.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, get_args

import numpy as np

from mlgo_clang.archives import ARCHIVE, THIN_ARCHIVE, archive_members
from mlgo_clang.errors import PolicyError
from mlgo_clang.files import digest_of
from mlgo_clang.link_facts import ADDRESS, OWN, SHARED, USES, read_lines, with_header
from mlgo_clang.object_size import SHF_ALLOC, SHF_EXECINSTR
from mlgo_gym.cache import write_atomically
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.linker import Folding, Link, Place
from mlgo_gym.llvm.object_file import SymbolTable, read_elf, read_symbol_table, relocation_tables

_ELF = b"\x7fELF"
_RELOCATABLE = (b"\1\0", b"\0\1")
_WEAK = 2
_FILE = 4

_MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}
_CALLS = {3: (4,), 40: (10, 28, 29, 30), 62: (4,), 183: (282, 283), 243: (18, 19)}
"""Kinds of relocations of calls and jumps, by machine (`llvm/BinaryFormat/ELFRelocs/`)."""
_VTABLES = ("_ZTV", "_ZTC")

_Caller = str | tuple[int, int, int]

UNKNOWN = (-1, -1)
"""The two numbers without link facts."""


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """The link facts of a build.

    Attributes:
        counts: By the name of a weak function, the number of copies, and of references to it. Copies are the objects
            that define it and its twins. A reference is a call or an address, in the code of a function or in data, of
            the function or of a twin. The copies of one function in several objects have the same references, which
            count once, as do those of callers that the linker merges.
        sources: Names of the objects' sources, without folders.
        covers_module: Whether the source of the module that is compiled is among them.
        twins: Number of other functions with which the linker merges a function; those with none are not contained.
        uses: By the name of a weak function, one of `mlgo_clang.link_facts.USES`.
        compilers: Compilers that wrote the objects, by their own names.
        targets: Architectures of the objects.
        folding: Identical code folding of the linker, the value of its option `--icf=`.
    """

    counts: Mapping[str, tuple[int, int]]
    sources: frozenset[str] = frozenset()
    covers_module: bool = False
    twins: Mapping[str, int] = field(default_factory=dict)
    uses: Mapping[str, str] = field(default_factory=dict)
    compilers: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    folding: Folding = "none"

    def of(self, function: str) -> tuple[int, int]:
        """Return the two numbers of a function, as `mlgo_clang.link_facts.FEATURES` has them."""
        return self.counts.get(function, UNKNOWN if self.covers_module else (0, 0))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> LinkFacts:
        """Return the facts in a file; raise `PolicyError` if there is no such file, or it is damaged."""
        counts: dict[str, tuple[int, int]] = {}
        twins: dict[str, int] = {}
        uses: dict[str, str] = {}
        others: dict[str, set[str]] = {"source": set(), "compiler": set(), "target": set(), "icf": set()}
        try:
            for line in read_lines(os.fspath(path)).decode(errors="surrogateescape").splitlines():
                copies, references, merged, use, name = line.split(" ", 4)
                if not int(copies):
                    others[use].add(name)
                    continue
                counts[name], uses[name] = (int(copies), int(references)), USES[USES.index(use)]
                twins.update({name: int(merged)} if int(merged) else {})
            (folding,) = others["icf"] & {*get_args(Folding)}
        except (KeyError, ValueError):
            raise PolicyError(
                f"expected lines COPIES REFERENCES TWINS USE NAME in {path}, got others; run mlgo-gym link-facts again"
            ) from None
        sources, compilers, targets, _ = map(frozenset, others.values())
        return cls(counts, sources, False, twins, uses, compilers, targets, cast("Folding", folding))

    def write(self, path: Path) -> None:
        """Write the facts to a file, all of them or nothing; raise an OSError if that fails."""
        write_atomically(path, self.encoded())

    def encoded(self) -> bytes:
        """Return the contents of the file."""
        rows = [
            (name, f"{copies} {references} {self.twins.get(name, 0)} {self.uses.get(name, SHARED)}")
            for name, (copies, references) in self.counts.items()
        ]
        others = {"source": self.sources, "compiler": self.compilers, "target": self.targets, "icf": [self.folding]}
        rows += [(name, f"0 0 0 {kind}") for kind, names in others.items() for name in names]
        lines = sorted((name.encode(errors="surrogateescape"), numbers.encode()) for name, numbers in rows)
        return with_header(b"".join(b"%s %s\n" % (numbers, name) for name, numbers in lines))

    @classmethod
    def of_objects(cls, objects: Iterable[bytes], folding: Folding = "none") -> LinkFacts:
        """Return the facts of ELF objects, which a linker with this folding links in their order.

        Equal objects count once, such as one beside its archive. Raises `MlgoError` if an object is damaged.
        """
        copies = Counter[str]()
        weak: set[str] = set()
        needed: set[str] = set()
        addresses: set[str] = set()
        sources: set[str] = set()
        compilers: set[str] = set()
        targets: set[str] = set()
        seen: set[str] = set()
        tables: list[SymbolTable] = []
        references: dict[str, Counter[_Caller]] = {}
        for data in objects:
            digest = digest_of(data)
            if digest in seen:
                continue
            seen.add(digest)
            table = read_symbol_table(read_elf(data))
            if table is None:
                continue
            tables += [table] if folding != "none" else []
            is_function = table.functions & table.visible
            defined = frozenset(table.names(table.symbols[is_function]))
            sources.update(table.names(table.symbols[table.symbols["info"] & 0xF == _FILE]))
            comment = bytes(table.elf.named_sections().get(".comment", b"")).decode(errors="replace")
            compilers.update(" ".join(text.split()) for text in comment.split("\0") if text.strip())
            targets.add(_MACHINES.get(table.elf.machine, f"machine {table.elf.machine}"))
            copies.update(defined)
            needed.update(table.names(table.symbols[table.visible & (table.symbols["section"] == 0)]))
            weak.update(table.names(table.symbols[is_function & (table.symbols["info"] >> 4 == _WEAK)]))
            found, taken = _references(table, len(tables) - 1 if tables else len(seen))
            addresses |= taken
            for (name, caller), count in found.items():
                known = references.setdefault(name, Counter())
                known[caller] = max(count, known[caller])
        groups = _merged_sections(tables, folding)
        merged: dict[Hashable, int] = {}
        for number, group in enumerate(groups):
            for section, names in group.items():
                merged.update(dict.fromkeys((section, *names), number))

        def number_of_references(names: Iterable[str]) -> int:
            callers = Counter[_Caller]()
            for name in names:
                callers.update(references.get(name, {}))
            once: dict[Hashable, int] = {}
            for caller, count in callers.items():
                kept = merged.get(caller if isinstance(caller, str) else caller[:2], caller)
                once[kept] = max(count, once.get(kept, 0))
            return sum(once.values())

        counts = {name: (copies[name], number_of_references([name])) for name in weak}
        uses = {
            name: SHARED if copies[name] > 1 or name in needed else ADDRESS if name in addresses else OWN
            for name in weak
        }
        twins = dict[str, int]()
        for group in groups:
            names = set[str]().union(*group.values())
            # A function without a visible name has unknown callers.
            total = number_of_references(names) + sum(not visible for visible in group.values())
            for name in names & weak:
                # Clang would inline the last call of an internal function, and change its arguments.
                uses[name] = SHARED
                twins[name] = len(group) - 1
                counts[name] = copies[name] + twins[name], total
        described = frozenset(sources), False, twins, uses, frozenset(compilers), frozenset(targets), folding
        return cls(counts, *described)


def _merged_sections(tables: Sequence[SymbolTable], folding: Folding) -> list[dict[Place, set[str]]]:
    link = Link(tables)
    groups: dict[int, dict[Place, set[str]]] = {}
    for place, number in link.folded_sections(folding).items():
        groups.setdefault(number, {})[place] = link.functions_of.get(place, set())
    return [group for group in groups.values() if len(group) > 1]


def _references(table: SymbolTable, number: int) -> tuple[Counter[tuple[str, _Caller]], set[str]]:
    """Return how often each caller refers to each visible symbol, and the symbols whose address is taken.

    A caller is the name of a visible function; or of others, and of data, the object's `number`, the section and the
    symbol. Calls and vtables take no address that a program compares.
    """
    names, visible = table.names(table.symbols), table.visible
    functions = np.flatnonzero(table.functions)
    functions = functions[np.argsort(table.symbols["value"][functions], kind="stable")]
    vtables = [index for index in np.flatnonzero(visible).tolist() if names[index].startswith(_VTABLES)]
    calls = _CALLS.get(table.elf.machine, ())
    found, taken = Counter[tuple[str, _Caller]](), set[str]()
    flags = table.elf.sections["flags"]
    for section, entries, symbols in relocation_tables(table):
        if section >= len(flags) or not int(flags[section]) & SHF_ALLOC:
            continue
        offsets = entries["offset"]
        inside = functions[table.sections[functions] == section]
        starts = table.symbols["value"][inside]
        positions = np.searchsorted(starts, offsets, side="right") - 1
        is_address = np.ones(len(offsets), bool)
        if int(flags[section]) & SHF_EXECINSTR:
            is_address &= ~np.isin(entries["kind"], calls)
        for vtable in vtables:
            if table.sections[vtable] == section:
                start, size = table.symbols["value"][vtable], table.symbols["size"][vtable]
                is_address &= (offsets < start) | (offsets >= start + size)
        rows = zip(positions.tolist(), symbols.tolist(), is_address.tolist(), strict=True)
        for position, symbol, address in rows:
            if not visible[symbol]:
                continue
            holder = int(inside[position]) if position >= 0 else -1
            named = holder >= 0 and visible[holder]
            found[names[symbol], names[holder] if named else (number, section, holder)] += 1
            if address:
                taken.add(names[symbol])
    return found, taken


def objects_in(path: Path) -> Iterator[bytes]:
    """Yield the ELF objects of a file or a folder, also those in archives (`.a`, `.rlib`), and in thin ones.

    Libtool makes each object twice, as `.libs/NAME.o` and `NAME.o`; the second is skipped, also in archives. Raises
    `MlgoError` without such a file, without an ELF object, or if a member of a thin archive is missing.
    """
    if not (path.is_file() or path.is_dir()):
        raise MlgoError(f"expected a folder with objects, an object or an archive, got {path}; name one that exists")
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    found = False
    for data in objects_of(files):
        found = True
        yield data
    if not found:
        raise MlgoError(f"expected ELF objects in {path}, got none; build first, and without -flto")


def objects_of(files: Collection[Path]) -> Iterator[bytes]:
    """Yield the ELF objects of files and archives as `objects_in()` does; none of other files."""
    second = {file for file in files if (file.parent / ".libs" / file.name).is_file()}
    skipped = {digest_of(file.read_bytes()) for file in second}
    skipped -= {digest_of((file.parent / ".libs" / file.name).read_bytes()) for file in second}
    for file in files:
        for data in () if file in second else _objects_of(file):
            if not (skipped and digest_of(data) in skipped):
                yield data


def _objects_of(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        start = stream.read(len(ARCHIVE))
        members: Iterable[bytes] = (start + stream.read(),) if start.startswith(_ELF) else ()
    if start in (ARCHIVE, THIN_ARCHIVE):
        members = (data for _, data in archive_members(file))
    try:
        yield from (data for data in members if data.startswith(_ELF) and data[16:18] in _RELOCATABLE)
    except OSError as error:
        raise MlgoError(f"expected the members of the thin archive {file}, got {error}; build it again") from error
