"""The tables of system calls agree with Linux's headers and clang's assembler."""

from __future__ import annotations

from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from mlgo_gym.llvm.toolchain import Toolchain, bundled_folder
from mlgo_gym.session.snapshots.syscall_abi import AARCH64, X86_64, SyscallAbi

LINUX = {"x86_64": X86_64, "aarch64": AARCH64}

BATCH = {
    "x86_64": """
.intel_syntax noprefix
next: mov rax, [r12]
      test rax, rax
      js done
      mov rdi, [r12+8]
      mov rsi, [r12+16]
      mov rdx, [r12+24]
      syscall
      mov [r12], rax
      add r12, 32
      jmp next
done: .fill 4, 1, 0xcc
""",
    "aarch64": """
next: ldr x8, [x19]
      tbnz x8, #63, done
      ldp x0, x1, [x19, #8]
      ldr x2, [x19, #24]
      svc #0
      str x0, [x19], #32
      b next
done: brk #0
""",
}


@pytest.mark.parametrize("machine", LINUX)
def test_the_machine_code_equals_the_assemblers(machine: str, toolchain: Toolchain, tmp_path: Path) -> None:
    source, assembled = tmp_path / "batch.s", tmp_path / "batch.o"
    source.write_text(BATCH[machine])
    result = toolchain.run([f"--target={machine}-linux", "-c", str(source), "-o", str(assembled)])
    assert result.returncode == 0, result.stderr
    with assembled.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".text")
        assert section is not None
        assert section.data().hex() == LINUX[machine].batch.hex()
    assert LINUX[machine].instruction in LINUX[machine].batch
    # It is poked in whole words.
    assert len(LINUX[machine].batch) % 8 == 0


def registers(abi: SyscallAbi) -> dict[str, int]:
    """Return the fields of the kernel's structure, and their registers in the table."""
    arguments = abi.arguments
    if abi is X86_64:
        names = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
        places = {"rax": abi.number, "orig_rax": abi.interrupted_number, "rip": abi.program_counter}
        places |= {"rsp": abi.stack_pointer, "r12": abi.batch_table}
        assert abi.result == abi.number
        return places | dict(zip(names, arguments, strict=True))
    places = {"regs[8]": abi.number, "pc": abi.program_counter, "sp": abi.stack_pointer, "regs[19]": abi.batch_table}
    assert abi.interrupted_number == abi.number
    assert abi.result == 0
    return places | {f"regs[{number}]": place for number, place in enumerate(arguments)}


@pytest.mark.parametrize("machine", LINUX)
def test_registers_and_numbers_are_those_of_linuxs_headers(machine: str, toolchain: Toolchain, tmp_path: Path) -> None:
    abi = LINUX[machine]
    structure = {"x86_64": "pt_regs", "aarch64": "user_pt_regs"}[machine]
    lines = ["#include <asm/ptrace.h>", "#include <asm/unistd.h>"]
    for field, place in registers(abi).items():
        lines.append(f'_Static_assert(__builtin_offsetof(struct {structure}, {field}) == 8 * {place}, "{field}");')
    for name, number in abi.numbers.items():
        lines.append(f'_Static_assert(__NR_{name} == {number}, "{name}");')
    source = tmp_path / "facts.c"
    source.write_text("\n".join(lines) + "\n")
    headers = bundled_folder() / "lib" / "libc" / "include"
    folders = [headers / f"{'x86' if machine == 'x86_64' else machine}-linux-any", headers / "any-linux-any"]
    flags = [word for folder in folders for word in ("-isystem", str(folder))]
    result = toolchain.run([f"--target={machine}-linux", "-nostdlibinc", *flags, "-fsyntax-only", str(source)])
    assert result.returncode == 0, result.stderr
