"""Block frequencies in maps by clang or by hand, and the estimate of executed instructions from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlgo_gym import open_corpus
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.estimated_instructions import (
    FREQUENCY_FLAGS,
    FunctionBlocks,
    FunctionInstructions,
    estimated_instructions,
    has_block_frequencies,
    read_block_frequencies,
)
from mlgo_gym.llvm.object_file import read_elf, read_relocations, read_symbol_table
from mlgo_gym.llvm.sizes import object_sizes
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


def blocks_of(data: bytes) -> list[FunctionBlocks]:
    elf = read_elf(data)
    table = read_symbol_table(elf)
    assert table is not None
    return list(read_block_frequencies(elf, read_relocations(table)))


def assembled(toolchain: Toolchain, folder: Path, *maps: str, code: str = CODE) -> bytes:
    """Return the object of an assembly program with maps."""
    text = "\n".join([code, '  .section .llvm_bb_addr_map,"o",@llvm_bb_addr_map,.text', *maps])
    return compiled(toolchain, folder, text, suffix="s")


def test_the_flags_leave_every_byte_of_code_unchanged(toolchain: Toolchain) -> None:
    module = open_corpus("builtin@O2", toolchain=toolchain).module("cpp/small_string")
    objects = []
    for flags in ((), FREQUENCY_FLAGS):
        with plan(module, toolchain, flags).session() as session:
            objects.append(session.finish(60).object_bytes)
    plain, mapped = map(read_elf, objects)
    code = [[bytes(elf.contents(each)) for each in np.flatnonzero(elf.executable).tolist()] for elf in (plain, mapped)]
    assert code[0] == code[1]
    assert object_sizes(objects[0]).text == object_sizes(objects[1]).text > 0
    assert [has_block_frequencies(each) for each in objects] == [False, True]


def test_each_version_gives_the_same_blocks_and_counts(toolchain: Toolchain, tmp_path: Path) -> None:
    for version, features in ((2, 0x2), (3, 0x2), (3, 0x22), (4, 0x22), (5, 0x2), (5, 0x22)):
        data = assembled(toolchain, tmp_path, looping_map(version=version, features=features), HIDDEN_MAP)
        visible, hidden = blocks_of(data)
        assert [(block.offset, block.size, block.frequency) for block in visible.blocks] == [(0, 1, 8), (1, 8, 24)]
        assert [block.is_exit for block in visible.blocks] == [False, True]
        assert (hidden.start[1], hidden.blocks[0].size, hidden.blocks[0].frequency) == (9, 3, 7)
    data = assembled(toolchain, tmp_path, looping_map(features=0x3, count=300), HIDDEN_MAP)
    assert [function.entry_count for function in blocks_of(data)] == [300, 0]
    assert not has_block_frequencies(assembled(toolchain, tmp_path, ".byte 2, 0"))
    assert not has_block_frequencies(assembled(toolchain, tmp_path))


def test_a_damaged_map_is_an_error(toolchain: Toolchain, tmp_path: Path) -> None:
    for damaged, message in (
        (looping_map(version=9), "expected a block address map of version 2 to 5, got version 9; use the bundled"),
        (looping_map(features=0x6), r"expected a block address map with entry counts, .* got 0x6; compile with"),
        (".byte 2, 2\n .quad 0", r"expected a relocation for the function .*, got none at byte 2; use an object"),
        (looping_map().rpartition(".uleb128")[0], "expected a block address map, got one that is cut off after"),
        (looping_map() + ".byte 2", r"expected a block address map, .* is damaged"),
        (looping_map().replace(".Lend-.Lloop", "4096"), r"expected the blocks .* within the 12 bytes of section"),
        (looping_map().replace("uleb128 8", "fill 12, 1, 0xff"), r"expected numbers of at most 64 bits"),
    ):
        with pytest.raises(MlgoError, match=message):
            blocks_of(assembled(toolchain, tmp_path, damaged))


PROGRAM = """
void use(int);
#define LOCAL static __attribute__((noinline))
LOCAL void often(int x) { use(x + 1); use(x + 2); }
LOCAL void rarely(int x) { use(x + 3); use(x + 4); }
void choose(int x) { if (__builtin_expect_with_probability(x > 0, 1, 0.9)) often(x); else rarely(x); use(x); }

LOCAL void inner(int x) { use(x); use(x + 5); }
LOCAL void outer(int n) { for (int i = 0; i < n; i++) inner(i); use(n); }
void nested(int n) { for (int i = 0; i < n; i++) outer(i); use(n); }

LOCAL int odd(int n);
LOCAL int even(int n) { if (n == 0) return 1; use(n); return odd(n - 1) + 1; }
LOCAL int odd(int n) { if (n == 0) return 0; use(n); return even(n - 1) + 2; }
int recursive(int n) { return even(n) * 3; }

void sort(int (*)(int, int));
static int compared(int a, int b) { return a - b; }
static int listed(int a, int b) { return a + b; }
int (*const table[])(int, int) = {listed};
void sorted(void) { sort(compared); use(1); }
int another(int x) __attribute__((alias("original")));
int original(int x) { return x * 7; }
"""


def estimated(*arguments: Any, **options: Any) -> dict[str, FunctionInstructions]:
    return estimated_instructions(assembled(*arguments, **options))


@pytest.mark.parametrize(("triple", "flags"), [(X86_64, ("-fno-pic",)), (AARCH64, ("-fPIC", "-ffunction-sections"))])
def test_a_program_enters_its_functions_as_often_as_branches_loops_and_names_say(
    toolchain: Toolchain, tmp_path: Path, triple: str, flags: tuple[str, ...]
) -> None:
    found = estimated_instructions(compiled(toolchain, tmp_path, PROGRAM, "-O1", *flags, triple=triple))
    entries = {name: function.entries for name, function in found.items()}
    assert (entries["choose"], entries["nested"]) == (1, 1)
    assert entries["often"] == pytest.approx(0.9, rel=1e-3)
    assert entries["rarely"] == pytest.approx(0.1, rel=1e-3)
    assert entries["outer"] > 10
    assert entries["inner"] == pytest.approx(entries["outer"] ** 2, rel=0.05)
    # A recursion is entered from outside alone, and a function whose address is taken once.
    assert [entries[name] for name in ("recursive", "even", "odd")] == [1, 1, 0]
    assert [entries[name] for name in ("sorted", "compared", "listed")] == [1, 1, 1]
    # Each further name of a function adds nothing.
    assert (entries["another"], entries["original"]) == (1, 0)
    assert found["another"].instructions == found["original"].instructions > 0


def test_frequencies_weigh_the_instructions_and_the_calls(toolchain: Toolchain, tmp_path: Path) -> None:
    found = estimated(toolchain, tmp_path, looping_map(runs=(8, 24)), HIDDEN_MAP)
    # One instruction in the entry, four in the loop with three runs, which also calls.
    assert found == {"visible": FunctionInstructions(1, 1 + 3 * 4), "hidden": FunctionInstructions(3, 3)}
    assert sum(each.total for each in found.values()) == 13 + 9
    never = estimated(toolchain, tmp_path, looping_map(runs=(0, 0)), HIDDEN_MAP)
    assert never["visible"].instructions == 0
    # A profile also counts entries from elsewhere.
    hidden = HIDDEN_MAP.replace(".byte 2, 2", ".byte 2, 3").replace(".uleb128 7", ".uleb128 50\n.uleb128 7")
    found = estimated(toolchain, tmp_path, looping_map(features=0x3, count=10), hidden)
    assert (found["hidden"].entries, found["visible"]) == (50, FunctionInstructions(10, 13))


def test_another_architecture_is_an_error(toolchain: Toolchain, tmp_path: Path) -> None:
    data = compiled(toolchain, tmp_path, ".text\nnop\n", triple="riscv64-unknown-linux-musl", suffix="s")
    with pytest.raises(MlgoError, match=r"^expected an object for x86-64 or AArch64 .* e_machine 243; use another"):
        estimated_instructions(data)
