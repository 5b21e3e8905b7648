"""Instructions of machine code: their number, and the places that they call or refer to."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from mlgo_gym import extras
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.object_file import ElfFile, Place, Relocation

_RELATIVE_ADDRESS = re.compile(r"\[rip ([+-]) (?:0x)?([0-9a-f]+)\]")


@dataclass(frozen=True, slots=True)
class Machine:
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
"""The conditions in the names of jumps on x86-64."""

_X86_64 = Machine(
    "CS_ARCH_X86",
    "CS_MODE_64",
    frozenset({"call", "jmp"}),
    frozenset(f"j{condition}" for condition in _CONDITIONS),
    "lea",
    {2: 4, 4: 4, 9: 4, 24: 0, 41: 4, 42: 4},
)
_AARCH64 = Machine("CS_ARCH_ARM64", "CS_MODE_ARM", frozenset({"bl", "b"}), frozenset(), "adr", {260: 0, 261: 0})

MACHINES = {62: _X86_64, 183: _AARCH64}
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
    """Disassembles parts of an object with relocations by section.

    Raises:
        MlgoError: the architecture is not supported.
        MissingExtraError: the library is not installed.
    """

    def __init__(self, elf: ElfFile, relocations: Mapping[int, Sequence[Relocation]]) -> None:
        self.machine = machine_of(elf)
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
                targets.append(self.target(relocation))
                relocation = next(waiting, None)
            # Within a section the assembler resolves what is relative, so that there is no relocation.
            is_call, is_conditional = mnemonic in machine.calls, mnemonic in machine.conditional_jumps
            if not targets and (is_call or is_conditional or mnemonic == machine.address):
                resolved = _resolved(operands, address + length)
                targets = [] if resolved is None else [(section, resolved)]
            (calls if is_call else conditional_jumps if is_conditional else references).extend(targets)
        return Code(count, tuple(calls), tuple(conditional_jumps), tuple(references))

    def target(self, relocation: Relocation) -> Place:
        """Return the place that a relocated instruction refers to."""
        section, address = relocation.target
        return section, address + self.machine.relative.get(relocation.kind, 0)


def machine_of(elf: ElfFile) -> Machine:
    """Return the architecture of an object, or raise `MlgoError`."""
    machine = MACHINES.get(elf.machine)
    if machine is None or not elf.wide or elf.order != "<":
        raise MlgoError(
            f"expected an object for x86-64 or AArch64 with 64 bits, got one with e_machine {elf.machine}; use another "
            'metric than "estimated-instructions"'
        )
    return machine


def _resolved(operands: str, following: int) -> int | None:
    """Return the address in the operands of an instruction, given that of the following one; None without any."""
    relative = _RELATIVE_ADDRESS.search(operands)
    if relative is not None:
        distance = int(relative[2], 16)
        return following + (distance if relative[1] == "+" else -distance)
    last = operands.rpartition(", ")[2].lstrip("#")
    return int(last, 0) if last[:1].isdigit() else None
