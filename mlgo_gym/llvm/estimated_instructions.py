"""An estimate of the instructions that a module executes, from its object alone.

The frequency of a block relative to the entry of its function, times the instructions of the block, summed over blocks,
are the instructions of one call. Calls within the object propagate entries: each function that other objects may call
is entered once, and each call enters its callee as often as its block runs. The frequencies are LLVM's static ones, so
only compiles of the same module with the same calls are comparable: other inlining changes the estimated entries.

If the module has a profile, the frequencies are measured ones. A function is then entered from outside as often as the
profile counts more entries than the calls within the object make, such as calls through pointers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mlgo_clang.object_size import SHF_ALLOC
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.block_frequencies import Block, read_block_frequencies
from mlgo_gym.llvm.disassembly import Code, Disassembler
from mlgo_gym.llvm.object_file import Place, SymbolTable, read_elf, read_relocations, read_symbol_table

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
        raise MlgoError("expected an object with a symbol table, got a stripped one; compile it without stripping")
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
