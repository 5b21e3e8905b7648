"""AArch64's table of system calls agrees with Linux's headers and clang's assembler; copies prove that of x86-64."""

from __future__ import annotations

from pathlib import Path

from elftools.elf.elffile import ELFFile

from mlgo_gym.compiler.syscall_abi import AARCH64, X86_64
from mlgo_gym.llvm.toolchain import Toolchain, bundled_folder

BATCH = """
next: ldr x8, [x19]
      tbnz x8, #63, done
      ldp x0, x1, [x19, #8]
      ldr x2, [x19, #24]
      svc #0
      str x0, [x19], #32
      b next
done: brk #0
"""


def test_the_machine_code_equals_the_assemblers(toolchain: Toolchain, tmp_path: Path) -> None:
    source, assembled = tmp_path / "batch.s", tmp_path / "batch.o"
    source.write_text(BATCH)
    result = toolchain.run(["--target=aarch64-linux", "-c", str(source), "-o", str(assembled)])
    assert result.returncode == 0, result.stderr
    with assembled.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".text")
        assert section is not None
        assert section.data().hex() == AARCH64.batch.hex()
    for abi in (AARCH64, X86_64):
        assert abi.instruction in abi.batch
        assert len(abi.batch) % 8 == 0  # it is poked in whole words


def test_registers_and_numbers_are_those_of_linuxs_headers(toolchain: Toolchain, tmp_path: Path) -> None:
    abi = AARCH64
    assert (abi.interrupted_number, abi.result) == (abi.number, 0)
    places = {"regs[8]": abi.number, "pc": abi.program_counter, "sp": abi.stack_pointer, "regs[19]": abi.batch_table}
    places |= {f"regs[{number}]": place for number, place in enumerate(abi.arguments)}
    facts = {f"__builtin_offsetof(struct user_pt_regs, {field})": 8 * place for field, place in places.items()}
    facts |= {f"__NR_{name}": number for name, number in abi.numbers.items()}
    source = tmp_path / "facts.c"
    lines = [f'_Static_assert({fact} == {value}, "");\n' for fact, value in facts.items()]
    source.write_text("#include <asm/ptrace.h>\n#include <asm/unistd.h>\n" + "".join(lines))
    headers = bundled_folder() / "lib" / "libc" / "include"
    flags = [f"-isystem{headers / folder}" for folder in ("aarch64-linux-any", "any-linux-any")]
    result = toolchain.run(["--target=aarch64-linux", "-nostdlibinc", *flags, "-fsyntax-only", str(source)])
    assert result.returncode == 0, result.stderr
