"""How each processor makes a Linux system call: registers, instruction, numbers.

From Linux's uapi/asm/ptrace.h (x86: arch/x86/include/asm/user_64.h; arm64: arch/arm64/include/uapi/asm/ptrace.h), its
system call tables, and syscall(2).
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SyscallAbi:
    """One processor's way into the kernel. Registers are positions in the `NT_PRSTATUS` register set, 8 bytes each.

    Attributes:
        registers: how many registers the set has.
        number: the register that holds the number of the system call to make.
        interrupted_number: the register that holds the number of an interrupted system call.
        arguments: the registers that hold the first arguments.
        result: the register that holds the result.
        program_counter: the register that points at the next instruction.
        stack_pointer: the register that points at the stack, which grows downwards.
        instruction: the bytes of the instruction that makes a system call.
        rewound: whether the kernel shows an interrupted call with the program counter already back at it.
        red_zone: how many bytes below the stack pointer are in use.
        numbers: the numbers of the system calls, by name.
        batch: machine code, a whole number of words, that makes the calls of a table and traps. A row has four words:
            a number, which the result replaces, and three arguments; a negative number ends the table.
        batch_table: the register that holds the address of that table.
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
    numbers={
        "read": 0,
        "close": 3,
        "lseek": 8,
        "clone": 56,
        "fcntl": 72,
        "setsid": 112,
        "openat": 257,
        "dup3": 292,
    },
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

# user_pt_regs: x0 to x30, sp, pc, pstate. do_signal() in arch/arm64/kernel/signal.c moves pc back before a debugger
# looks, and gives x0 its old value again.
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
    numbers={
        "read": 63,
        "close": 57,
        "lseek": 62,
        "clone": 220,
        "fcntl": 25,
        "setsid": 157,
        "openat": 56,
        "dup3": 24,
    },
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
"""AArch64: `svc #0`, number in x8, arguments from x0. Written from the kernel's sources, and not run by us so far."""


def syscall_abi() -> SyscallAbi | None:
    """Return how this machine's processor does it, or None where that is not known here."""
    return {"x86_64": X86_64, "aarch64": AARCH64}.get(platform.machine())
