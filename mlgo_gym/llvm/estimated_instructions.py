"""An estimate of the instructions that a module executes, from its object alone.

The frequency of a block relative to the entry of its function, times the instructions of the block, summed over blocks,
are the instructions of one call. Calls within the object propagate entries: each function that other objects may call
is entered once, and each call enters its callee as often as its block runs. The frequencies are LLVM's static ones, so
only compiles of the same module with the same calls are comparable: other inlining changes the estimated entries.

With `FREQUENCY_FLAGS` clang writes the frequencies to a section `.llvm_bb_addr_map` (llvm/docs/Extensions.rst,
`SHT_LLVM_BB_ADDR_MAP` and its PGO analysis map). The code stays the same. If the module has a profile, the frequencies
are measured ones. A function is then entered from outside as often as the profile counts more entries than the calls
within the object make, such as calls through pointers.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mlgo_clang.object_size import SHF_ALLOC, WASM_MAGIC
from mlgo_gym import extras
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.object_file import (
    STRIPPED,
    ByteReader,
    ElfFile,
    Place,
    Relocation,
    SymbolTable,
    read_elf,
    read_relocations,
    read_symbol_table,
)

FREQUENCY_FLAGS = ("-fbasic-block-address-map", "-mllvm", "-pgo-analysis-map=func-entry-count,bb-freq")
"""The `-cc1` arguments with which clang writes block frequencies and entry counts."""

OLDEST_CLANG = 20
"""Oldest clang with the first of `FREQUENCY_FLAGS`."""

_MAP_TYPE = 0x6FFF4C0A
_FEATURE_BYTES = {2: 1, 3: 1, 4: 1, 5: 2}
"""Bytes of the features by version of the map."""

_ENTRY_COUNTS, _FREQUENCIES, _CALL_SITES = 0x1, 0x2, 0x20
_HAS_RETURN = 0x1
_ADDRESS_BYTES = 8


class Block(NamedTuple):
    """A basic block.

    Attributes:
        offset: Offset in its section, in bytes.
        size: Bytes.
        frequency: Expected number of runs; only the ratio to the entry block of the function has a meaning.
        is_exit: Whether it ends with a return or a tail call, which may be conditional.
    """

    offset: int
    size: int
    frequency: int
    is_exit: bool


class FunctionBlocks(NamedTuple):
    """The blocks of a function.

    Attributes:
        start: Place of the function.
        blocks: Its blocks in the order of their offsets; the first is the entry.
        entry_count: Entries by the profile; 0 without one, or if the function did not run.
    """

    start: Place
    blocks: tuple[Block, ...]
    entry_count: int = 0


def has_block_frequencies(data: bytes) -> bool:
    """Return whether an object has block frequencies; WebAssembly has none. Raise `MlgoError` for a damaged one."""
    if data[:4] == WASM_MAGIC:
        return False
    elf = read_elf(data)
    # The features follow the version; their low byte is the first in every version.
    return any(len(raw) > 1 and raw[1] & _FREQUENCIES for raw in map(elf.contents, map_sections(elf)))


def map_sections(elf: ElfFile) -> list[int]:
    """Return the sections with maps of basic blocks."""
    return list(map(int, np.flatnonzero(elf.sections["type"] == _MAP_TYPE)))


def read_block_frequencies(elf: ElfFile, relocations: Mapping[int, Sequence[Relocation]]) -> Iterator[FunctionBlocks]:
    """Yield the blocks of each function of an object with 64 bits, little-endian, that is not linked.

    Raises `MlgoError` if a map is damaged, or has a version or a feature that is not supported.
    """
    for section in map_sections(elf):
        starts = {relocation.offset: relocation.target for relocation in relocations.get(section, ())}
        data = bytes(elf.contents(section))
        reader = ByteReader(data, 0, len(data), "a block address map", 64)
        while reader.at < len(data):
            function = _read_function(reader, starts)
            _check_place(elf, function)
            yield function


def _read_function(reader: ByteReader, starts: Mapping[int, Place]) -> FunctionBlocks:
    """Read the map of one function; `starts` has the place of the function by the offset of its address."""
    version = reader.fixed(1)
    if version not in _FEATURE_BYTES:
        raise MlgoError(
            f"expected a block address map of version {min(_FEATURE_BYTES)} to {max(_FEATURE_BYTES)}, got version "
            f"{version}; use the bundled clang"
        )
    features = reader.fixed(_FEATURE_BYTES[version])
    if features & ~(_ENTRY_COUNTS | _CALL_SITES) != _FREQUENCIES:
        raise MlgoError(
            "expected a block address map with entry counts, frequencies and call sites (features 0x1, 0x2 and "
            f"0x20), got {features:#x}; compile with {' '.join(FREQUENCY_FLAGS)} and no other option of the map"
        )
    start = starts.get(reader.at)
    if start is None:
        raise MlgoError(
            f"expected a relocation for the function of a block address map, got none at byte {reader.at}; use an "
            "object that is not linked"
        )
    reader.fixed(_ADDRESS_BYTES)
    end = start[1]
    places = []
    for _ in range(reader.number()):
        reader.number()  # identity
        offset = end + reader.number()
        # A size counts from the end of the last call in the block.
        calls = sum([reader.number() for _ in range(reader.number())]) if features & _CALL_SITES else 0
        end = offset + calls + reader.number()
        is_exit = bool(reader.number() & _HAS_RETURN)
        places.append((offset, end - offset, is_exit))
    entry_count = reader.number() if features & _ENTRY_COUNTS else 0
    blocks = [Block(offset, size, reader.number(), is_exit) for offset, size, is_exit in places]
    return FunctionBlocks(start, tuple(blocks), entry_count)


def _check_place(elf: ElfFile, function: FunctionBlocks) -> None:
    section, start = function.start
    size = int(elf.sections["size"][section]) if 0 <= section < len(elf.sections) else 0
    end = function.blocks[-1].offset + function.blocks[-1].size if function.blocks else start
    if start < 0 or end > size or not function.blocks:
        raise MlgoError(
            f"expected the blocks of a function within the {size} bytes of section {section}, got bytes {start} to "
            f"{end}; the object is damaged"
        )


_RELATIVE_ADDRESS = re.compile(r"\[rip ([+-]) (?:0x)?([0-9a-f]+)\]")


@dataclass(frozen=True, slots=True)
class _Machine:
    """An architecture, as far as counting instructions depends on it.

    Attributes:
        architecture, mode: Names of capstone's constants.
        calls: Calls and jumps with a target in the instruction; a tail call is a jump.
        conditional_jumps: Conditional jumps that may be tail calls.
        address: Instruction that computes an address without a relocation.
        relative: Types of relocations relative to their own place, and what they add to the address: x86-64 counts from
            the end of four bytes (the System V ABI for x86-64 and for AArch64).
    """

    architecture: str
    mode: str
    calls: frozenset[str]
    conditional_jumps: frozenset[str]
    address: str
    relative: Mapping[int, int]


_CONDITIONS = ("o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g")

_X86_64 = _Machine(
    "CS_ARCH_X86",
    "CS_MODE_64",
    frozenset({"call", "jmp"}),
    frozenset(f"j{condition}" for condition in _CONDITIONS),
    "lea",
    {2: 4, 4: 4, 9: 4, 24: 0, 41: 4, 42: 4},
)
_AARCH64 = _Machine("CS_ARCH_ARM64", "CS_MODE_ARM", frozenset({"bl", "b"}), frozenset(), "adr", {260: 0, 261: 0})

_MACHINES = {62: _X86_64, 183: _AARCH64}
"""The supported architectures by `e_machine` (elf(5))."""


class Code(NamedTuple):
    """A piece of machine code.

    Attributes:
        instructions: Number of its instructions.
        calls: Targets of its calls and unconditional jumps.
        conditional_jumps: Targets of its conditional jumps.
        references: Places whose address it takes.
    """

    instructions: int
    calls: tuple[Place, ...]
    conditional_jumps: tuple[Place, ...]
    references: tuple[Place, ...]


def load_capstone() -> Any:
    """Return the library that disassembles, or raise `MissingExtraError`."""
    return extras.library("capstone", 'The metric "estimated-instructions"', "run-time")


class Disassembler:
    """Disassembles parts of an object with relocations by section; raises as `estimated_instructions()`."""

    def __init__(self, elf: ElfFile, relocations: Mapping[int, Sequence[Relocation]]) -> None:
        machine = _MACHINES.get(elf.machine)
        if machine is None or not elf.wide or elf.order != "<":
            raise MlgoError(
                f"expected an object for x86-64 or AArch64 with 64 bits, got one with e_machine {elf.machine}; use "
                'another metric than "estimated-instructions"'
            )
        self.machine = machine
        library = load_capstone()
        architecture = getattr(library, self.machine.architecture)
        self._engine = library.Cs(architecture, getattr(library, self.machine.mode))
        # Data between instructions count as instructions instead of ending the disassembly.
        self._engine.skipdata = True
        self._elf = elf
        self._relocations = relocations

    def code(self, section: int, offset: int, size: int) -> Code:
        """Disassemble some bytes of a section."""
        machine, end = self.machine, offset + size
        data = bytes(self._elf.contents(section)[offset:end])
        entries = self._relocations.get(section, ())
        first, last = (bisect_left(entries, bound, key=attrgetter("offset")) for bound in (offset, end))
        waiting = iter(entries[first:last])
        relocation = next(waiting, None)
        count = 0
        calls: list[Place] = []
        conditional_jumps: list[Place] = []
        references: list[Place] = []
        for address, length, mnemonic, operands in self._engine.disasm_lite(data, offset):
            count += 1
            targets = []
            while relocation is not None and relocation.offset < address + length:
                home, start = relocation.target
                targets.append((home, start + machine.relative.get(relocation.kind, 0)))
                relocation = next(waiting, None)
            # Within a section the assembler resolves what is relative, so that there is no relocation.
            is_call, is_conditional = mnemonic in machine.calls, mnemonic in machine.conditional_jumps
            if not targets and (is_call or is_conditional or mnemonic == machine.address):
                resolved = _resolved(operands, address + length)
                targets = [] if resolved is None else [(section, resolved)]
            (calls if is_call else conditional_jumps if is_conditional else references).extend(targets)
        return Code(count, tuple(calls), tuple(conditional_jumps), tuple(references))


def _resolved(operands: str, following: int) -> int | None:
    """Return the address in the operands of an instruction, given that of the following one; None without any."""
    relative = _RELATIVE_ADDRESS.search(operands)
    if relative is not None:
        distance = int(relative[2], 16)
        return following + (distance if relative[1] == "+" else -distance)
    last = operands.rpartition(", ")[2].lstrip("#")
    return int(last, 0) if last[:1].isdigit() else None


Node = TypeVar("Node", bound=Hashable)


def strong_components(successors: Mapping[Node, Sequence[Node]]) -> list[set[Node]]:
    """Return the components of a graph, each after all that it leads to.

    The algorithm keeps its own stack, since chains of calls may be longer than Python's.

    Args:
        successors: The successors of each node; each of them is a key too.
    """
    order: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    path: list[Node] = []
    open_nodes: set[Node] = set()
    components: list[set[Node]] = []
    for root in successors:
        if root in order:
            continue
        work = [(root, iter(successors[root]))]
        while work:
            node, remaining = work[-1]
            if node not in order:
                order[node] = lowest[node] = len(order)
                path.append(node)
                open_nodes.add(node)
            for successor in remaining:
                if successor not in order:
                    work.append((successor, iter(successors[successor])))
                    break
                if successor in open_nodes:
                    lowest[node] = min(lowest[node], order[successor])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == order[node]:
                    start = path.index(node)
                    components.append(set(path[start:]))
                    open_nodes.difference_update(path[start:])
                    del path[start:]
    return components


@dataclass(frozen=True, slots=True)
class FunctionInstructions:
    """The estimate of one function.

    Attributes:
        entries: Expected number of calls, from outside and from within the object.
        instructions: Expected number of instructions of one call, without those of the functions that it calls.
    """

    entries: float
    instructions: float

    @property
    def total(self) -> float:
        """The expected number of executed instructions."""
        return self.entries * self.instructions


def estimated_instructions(data: bytes) -> dict[str, FunctionInstructions]:
    """Return the estimate of each function; the sum of their totals is that of the module.

    Without a profile a function whose address is taken counts as called once. Calls between functions of one recursion
    enter nothing. Each further name of a function has an entry of its own, with 0 entries.

    Args:
        data: An object for x86-64 or AArch64, compiled with `FREQUENCY_FLAGS` and not linked.

    Raises:
        MlgoError: the object is damaged, of another architecture or stripped, or the estimate exceeds float64.
        MissingExtraError: the library that disassembles is not installed.
    """
    elf = read_elf(data)
    table = read_symbol_table(elf)
    if table is None:
        raise MlgoError(STRIPPED)
    relocations = read_relocations(table)
    disassembler = Disassembler(elf, relocations)
    maps = list(read_block_frequencies(elf, relocations))
    functions = {function.start: function.blocks for function in maps}
    instructions: dict[Place, float] = {}
    calls: dict[Place, Mapping[Place, float]] = {}
    references: set[Place] = set()
    for start, blocks in functions.items():
        # A function that never runs by its profile has an entry of frequency 0.
        runs = [block.frequency / (blocks[0].frequency or 1) for block in blocks]
        code = [disassembler.code(start[0], block.offset, block.size) for block in blocks]
        instructions[start] = sum(count * block.instructions for count, block in zip(runs, code, strict=True))
        calls[start] = _calls(start, list(zip(blocks, runs, code, strict=True)), functions)
        references.update(place for block in code for place in block.references)
    allocated = elf.sections["flags"] & SHF_ALLOC != 0
    for section, entries in relocations.items():
        if section < len(allocated) and allocated[section] and not elf.executable[section]:
            # Relative ones are unwind tables and jump tables, which take the address of no function.
            relative = disassembler.machine.relative
            references.update(relocation.target for relocation in entries if relocation.kind not in relative)
    names = _names(table)
    visible = {place for place, symbols in names.items() if any(is_visible for _, is_visible in symbols)}
    measured = {function.start: float(function.entry_count) for function in maps}
    if any(measured.values()):
        entries_of = _propagate(measured, calls)
    else:
        entered = visible | references
        once = {place: float(place in entered) for place in functions}
        entries_of = _propagate(once, calls, is_outside=True)
    estimates: dict[str, FunctionInstructions] = {}
    for place, count in instructions.items():
        first, *others = sorted(name for name, _ in names.get(place, ())) or [f"{place[0]}+{place[1]:#x}"]
        estimates[first] = FunctionInstructions(entries_of[place], count)
        estimates |= {name: FunctionInstructions(0.0, count) for name in others}
    if not math.isfinite(sum(estimate.total for estimate in estimates.values())):
        raise MlgoError(
            "expected an estimate of instructions below the largest float64, got one above; use another metric than "
            '"estimated-instructions" for this module'
        )
    return estimates


def _calls(
    start: Place, blocks: Sequence[tuple[Block, float, Code]], functions: Collection[Place]
) -> Mapping[Place, float]:
    """Return how often one call of a function calls each other place.

    A call leaves the function once. The other exits leave the rest to conditional tail calls, by the runs of their
    blocks.
    """
    called: dict[Place, float] = defaultdict(float)
    conditional: list[tuple[Place, float]] = []
    rest = 1.0
    for block, runs, code in blocks:
        for callee in code.calls:
            called[callee] += runs
        leaving = [place for place in code.conditional_jumps if place in functions or place[0] != start[0]]
        conditional += [(callee, runs) for callee in leaving if callee != start]
        if block.is_exit and not leaving:
            rest -= runs
    total = sum(runs for _, runs in conditional)
    for callee, runs in conditional:
        called[callee] += max(rest, 0.0) * runs / (total or 1.0)
    return called


def _names(table: SymbolTable) -> dict[Place, list[tuple[str, bool]]]:
    """Return the names of the functions at each place, and whether other objects can refer to each."""
    functions = table.functions
    names: dict[Place, list[tuple[str, bool]]] = defaultdict(list)
    values = table.symbols["value"][functions].astype(np.int64).tolist()
    places = zip(table.sections[functions].tolist(), values, strict=True)
    for place, name, is_visible in zip(
        places, table.names(table.symbols[functions]), table.visible[functions], strict=True
    ):
        names[place].append((name, bool(is_visible)))
    return names


def _propagate(
    counts: Mapping[Place, float], calls: Mapping[Place, Mapping[Place, float]], *, is_outside: bool = False
) -> dict[Place, float]:
    """Return the entries of each function.

    `counts` are the entries by function, or those from outside alone. Calls within a component do not count.
    """
    entries = dict(counts) if is_outside else dict.fromkeys(counts, 0.0)
    called = {function: [callee for callee in calls[function] if callee in entries] for function in entries}
    for component in reversed(strong_components(called)):
        for function in component:
            if not is_outside:
                entries[function] = max(counts[function], entries[function])
            for callee in called[function]:
                if callee not in component:
                    entries[callee] += entries[function] * calls[function][callee]
    return entries
