"""System calls of each processor: registers, instruction and numbers.

From Linux's uapi/asm/ptrace.h (x86: arch/x86/include/asm/user_64.h; arm64: arch/arm64/include/uapi/asm/ptrace.h), its
system call tables, and syscall(2).
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SyscallAbi:
    """System call interface of one processor. Registers are indices into the `NT_PRSTATUS` set of 8-byte registers.

    Attributes:
        registers: Number of registers in the set.
        number: Register with the number of the next system call.
        interrupted_number: Register with the number of an interrupted system call.
        arguments: Registers of the first arguments.
        result: Register of the result.
        program_counter: Register with the address of the next instruction.
        stack_pointer: Register with the address of the stack, which grows downwards.
        instruction: Bytes of the system call instruction.
        rewound: Whether the program counter of an interrupted call already points at the instruction.
        red_zone: Bytes below the stack pointer that are in use.
        numbers: Numbers of the system calls, by name.
        batch: Machine code, a multiple of 8 bytes, that makes the calls of a table and then traps. A row has four
            8-byte words: a number, which the result replaces, and three arguments. A negative number ends the table.
        batch_table: Register with the address of the table.
    """

    registers: int
    number: int
    interrupted_number: int
    arguments: tuple[int, ...]
    result: int
    program_counter: int
    stack_pointer: int
    instruction: bytes
    rewound: bool
    red_zone: int
    numbers: Mapping[str, int]
    batch: bytes
    batch_table: int


_NUMBERS = {
    "read": (0, 63),
    "close": (3, 57),
    "lseek": (8, 62),
    "clone": (56, 220),
    "fcntl": (72, 25),
    "setsid": (112, 157),
    "openat": (257, 56),
    "dup3": (292, 24),
}
"""Numbers of the system calls: x86-64, AArch64."""

# user_regs_struct: r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss fs_base gs_base ds es
# fs gs.
X86_64 = SyscallAbi(
    registers=27,
    number=10,
    interrupted_number=15,
    arguments=(14, 13, 12, 7, 9, 8),
    result=10,
    program_counter=16,
    stack_pointer=19,
    instruction=b"\x0f\x05",
    rewound=False,
    red_zone=128,
    numbers={name: x86_64 for name, (x86_64, _) in _NUMBERS.items()},
    batch=bytes.fromhex(
        "498b0424"  # next: mov rax, [r12]
        "4885c0"  # test rax, rax
        "781b"  # js done
        "498b7c2408"  # mov rdi, [r12+8]
        "498b742410"  # mov rsi, [r12+16]
        "498b542418"  # mov rdx, [r12+24]
        "0f05"  # syscall
        "49890424"  # mov [r12], rax
        "4983c420"  # add r12, 32
        "ebdc"  # jmp next
        "cccccccc"  # done: int3
    ),
    batch_table=3,
)
"""x86-64: `syscall`, number in rax, arguments in rdi, rsi, rdx, r10, r8, r9."""

# user_pt_regs: x0 to x30, sp, pc, pstate. do_signal() in arch/arm64/kernel/signal.c restores pc and x0 before a
# debugger reads them.
AARCH64 = SyscallAbi(
    registers=34,
    number=8,
    interrupted_number=8,
    arguments=(0, 1, 2, 3, 4, 5),
    result=0,
    program_counter=32,
    stack_pointer=31,
    instruction=b"\x01\x00\x00\xd4",
    rewound=True,
    red_zone=128,
    numbers={name: aarch64 for name, (_, aarch64) in _NUMBERS.items()},
    batch=bytes.fromhex(
        "680240f9"  # next: ldr x8, [x19]
        "c800f8b7"  # tbnz x8, #63, done
        "608640a9"  # ldp x0, x1, [x19, #8]
        "620e40f9"  # ldr x2, [x19, #24]
        "010000d4"  # svc #0
        "600602f8"  # str x0, [x19], #32
        "faffff17"  # b next
        "000020d4"  # done: brk #0
    ),
    batch_table=19,
)
"""AArch64: `svc #0`, number in x8, arguments from x0. Untested: written from the kernel's sources."""


def syscall_abi() -> SyscallAbi | None:
    """Return the interface of this machine's processor; None if unsupported."""
    return {"x86_64": X86_64, "aarch64": AARCH64}.get(platform.machine())
