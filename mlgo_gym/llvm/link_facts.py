"""Link facts: how many objects of a build define a weak function, and how often the build refers to it.

A module cannot see what the linker does. Of a `linkonce_odr` function (inline functions and templates of C++) the
linker keeps one copy. So inlining the last call in a module saves bytes only if no other object defines the function,
or if all objects do the same: the linked program has one call, perhaps in a function of which many objects have a copy.
The symbols and relocations of a plain build, or of an earlier one, show that. Facts that are out of date cost bytes,
never correctness.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mlgo_clang.archives import ARCHIVE, THIN_ARCHIVE, archive_members
from mlgo_clang.errors import PolicyError
from mlgo_clang.files import digest_of
from mlgo_clang.link_facts import read_lines, with_header
from mlgo_gym.cache import write_atomically
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.object_file import SymbolTable, read_elf, read_references, read_symbol_table

_ELF = b"\x7fELF"
_RELOCATABLE = (b"\1\0", b"\0\1")
_WEAK = 2
_FILE = 4

UNKNOWN = (-1, -1)
"""The two numbers without link facts."""


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """The link facts of one or more builds.

    Attributes:
        counts: By the name of a weak function, the number of objects that define it, and of references to it. A
            reference is a call or an address, in the code of a function or in data. The copies of one function in
            several objects have the same references, which count once.
        sources: Names of the objects' sources, without folders.
        covers_module: Whether the source of the module that is compiled is among them.
    """

    counts: Mapping[str, tuple[int, int]]
    sources: frozenset[str] = frozenset()
    covers_module: bool = False

    def of_module(self, source: str) -> LinkFacts:
        """Return the facts for the compile of a source."""
        return replace(self, covers_module=Path(source).name in self.sources)

    def of(self, function: str) -> tuple[int, int]:
        """Return the two numbers of a function, as `mlgo_clang.link_facts.FEATURES` has them."""
        return self.counts.get(function, UNKNOWN if self.covers_module else (0, 0))

    def keeps(self, function: str) -> bool:
        """Return whether the program keeps a function that one object drops: others define it and refer to it."""
        return min(self.of(function)) > 1

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> LinkFacts:
        """Return the facts in a file; raise `PolicyError` if there is no such file, or it is damaged."""
        lines = read_lines(os.fspath(path))
        try:
            rows = [line.split(b" ", 2) for line in lines.splitlines()]
            numbers = {name.decode(errors="surrogateescape"): (int(copies), int(refs)) for copies, refs, name in rows}
        except ValueError:
            raise PolicyError(
                f"expected lines COPIES REFERENCES NAME in {path}, got others; run mlgo-gym link-facts again"
            ) from None
        counts = {name: pair for name, pair in numbers.items() if pair[0]}
        return cls(counts, frozenset(numbers.keys() - counts.keys()))

    def write(self, path: Path) -> None:
        """Write the facts to a file, all of them or nothing; raise an OSError if that fails."""
        numbers = {**dict.fromkeys(self.sources, (0, 0)), **self.counts}
        rows = sorted((name.encode(errors="surrogateescape"), counts) for name, counts in numbers.items())
        lines = b"".join(b"%d %d %s\n" % (*counts, name) for name, counts in rows)
        write_atomically(path, with_header(lines))

    @classmethod
    def merged(cls, parts: Iterable[LinkFacts]) -> LinkFacts:
        """Return the facts of several builds that are linked together: the sums of their numbers."""
        copies, references = Counter[str](), Counter[str]()
        sources: set[str] = set()
        for part in parts:
            sources |= part.sources
            for name, (defining, referring) in part.counts.items():
                copies[name] += defining
                references[name] += referring
        return cls({name: (count, references[name]) for name, count in copies.items()}, frozenset(sources))

    @classmethod
    def of_objects(cls, objects: Iterable[bytes]) -> LinkFacts:
        """Return the facts of ELF objects.

        Equal objects count once, such as one beside the archive that contains it.

        Raises `MlgoError` if an object is damaged.
        """
        copies = Counter[str]()
        weak: set[str] = set()
        sources: set[str] = set()
        seen: set[str] = set()
        references: dict[str, dict[object, int]] = {}
        for data in objects:
            digest = digest_of(data)
            if digest in seen:
                continue
            seen.add(digest)
            table = read_symbol_table(read_elf(data))
            if table is None:
                continue
            is_function = table.functions & table.visible
            defined = frozenset(table.names(table.symbols[is_function]))
            sources.update(table.names(table.symbols[table.symbols["info"] & 0xF == _FILE]))
            copies.update(defined)
            weak.update(table.names(table.symbols[is_function & (table.symbols["info"] >> 4 == _WEAK)]))
            for (name, place), count in _references(table, len(seen)).items():
                known = references.setdefault(name, {})
                known[place] = max(count, known.get(place, 0))
        return cls({name: (copies[name], sum(references.get(name, {}).values())) for name in weak}, frozenset(sources))


def _references(table: SymbolTable, number: int) -> Counter[tuple[str, object]]:
    """Return how often each place refers to each visible symbol.

    A place is the name of a visible function; or of others, and of data, the section, the symbol and the object's
    `number`.
    """
    names, visible = table.names(table.symbols), table.visible
    functions = np.flatnonzero(table.functions)
    functions = functions[np.argsort(table.symbols["value"][functions], kind="stable")]
    found = Counter[tuple[str, object]]()
    for section, offsets, symbols in read_references(table):
        inside = functions[table.sections[functions] == section]
        starts = table.symbols["value"][inside]
        positions = np.searchsorted(starts, offsets, side="right") - 1
        for position, symbol in zip(positions.tolist(), symbols.tolist(), strict=True):
            if not visible[symbol]:
                continue
            holder = int(inside[position]) if position >= 0 else -1
            named = holder >= 0 and visible[holder]
            found[names[symbol], names[holder] if named else (number, section, holder)] += 1
    return found


def objects_in(path: Path) -> Iterator[bytes]:
    """Yield the ELF objects of a file or a folder, also those in archives (`.a`, `.rlib`), and in thin ones.

    Libtool makes each object twice, as `.libs/NAME.o` and `NAME.o`; the second is skipped, also in archives. Objects of
    LLVM bitcode and of other formats are no ELF objects.

    Raises `MlgoError` if there is no such file or folder, it contains no ELF object, or a member of a thin archive is
    missing.
    """
    if not (path.is_file() or path.is_dir()):
        raise MlgoError(f"expected a folder with objects, an object or an archive, got {path}; name one that exists")
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    second = {file for file in files if (file.parent / ".libs" / file.name).is_file()}
    skipped = {digest_of(file.read_bytes()) for file in second}
    skipped -= {digest_of((file.parent / ".libs" / file.name).read_bytes()) for file in second}
    found = False
    for file in files:
        for data in () if file in second else _objects_of(file):
            found = True
            if not (skipped and digest_of(data) in skipped):
                yield data
    if not found:
        raise MlgoError(f"expected ELF objects in {path}, got none; build first, and without -flto")


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
