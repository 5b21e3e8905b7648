"""Objects with block address maps: compiled by clang, or assembled from hand-written maps."""

from __future__ import annotations

from pathlib import Path

from mlgo_gym.llvm.block_frequencies import FREQUENCY_FLAGS
from mlgo_gym.llvm.toolchain import Toolchain

X86_64, AARCH64 = "x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"

CODE = """
  .text
  .globl visible
  .type visible,@function
visible:
  nop
.Lloop:
  nop
  call hidden
.Lafter:
  nop
  ret
.Lend:
  .size visible, .-visible
  .type hidden,@function
hidden:
  nop
  nop
  ret
.Lhidden_end:
  .size hidden, .-hidden
"""
"""Two functions: a loop with 4 instructions that calls a local function with 3."""

HIDDEN_MAP = """
  .byte 2, 2
  .quad hidden
  .uleb128 1, 0, 0, .Lhidden_end-hidden, 1
  .uleb128 7
"""
"""The map of the second function in version 2: one block of frequency 7."""


def with_maps(code: str, *maps: str) -> str:
    """Return an assembly program with maps."""
    return "\n".join([code, '  .section .llvm_bb_addr_map,"o",@llvm_bb_addr_map,.text', *maps])


def looping_map(*, version: int = 2, features: int = 0x2, count: int = 0, runs: tuple[int, int] = (8, 24)) -> str:
    """Return the map of the first function of `CODE`: an entry of one instruction, and a block with the others."""
    width = ".2byte" if version == 5 else ".byte"
    has_calls = features & 0x20
    entry = "0, 0, 0, .Lloop-visible, 8" if has_calls else "0, 0, .Lloop-visible, 8"
    block = "1, 0, 1, .Lafter-.Lloop, .Lend-.Lafter, 1" if has_calls else "1, 0, .Lend-.Lloop, 1"
    return f"""
  .byte {version}
  {width} {features}
  .quad visible
  .uleb128 2
  .uleb128 {entry}
  .uleb128 {block}
  {f".uleb128 {count}" if features & 0x1 else ""}
  .uleb128 {runs[0]}
  .uleb128 {runs[1]}
"""


def compiled(
    toolchain: Toolchain, folder: Path, text: str, *flags: str, triple: str = X86_64, suffix: str = "c"
) -> bytes:
    """Return the object of a program in C or assembly (suffix `s`); C with block frequencies."""
    source = folder / f"program.{suffix}"
    source.write_text(text)
    driver = FREQUENCY_FLAGS if suffix == "c" else ()
    command = [f"--target={triple}", *flags, *driver, "-c", str(source), "-o", str(folder / "program.o")]
    result = toolchain.run(command)
    assert result.returncode == 0, result.stderr
    return (folder / "program.o").read_bytes()
