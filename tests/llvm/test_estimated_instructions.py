"""The estimate of executed instructions, on programs whose proportions are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.estimated_instructions import FunctionInstructions, estimated_instructions
from mlgo_gym.llvm.toolchain import Toolchain
from tests.llvm.maps import AARCH64, CODE, HIDDEN_MAP, X86_64, compiled, looping_map, with_maps

pytest.importorskip("capstone", reason="the extra run-time is not installed")

BRANCHES = """
void use(int);
static __attribute__((noinline)) void often(int x) { use(x + 1); use(x + 2); }
static __attribute__((noinline)) void rarely(int x) { use(x + 3); use(x + 4); }
void choose(int x) {
  if (__builtin_expect_with_probability(x > 0, 1, 0.9)) often(x); else rarely(x);
  use(x);
}
"""

LOOPS = """
void use(int);
static __attribute__((noinline)) void inner(int x) { use(x); use(x + 1); }
static __attribute__((noinline)) void outer(int n) { for (int i = 0; i < n; i++) inner(i); use(n); }
void nested(int n) { for (int i = 0; i < n; i++) outer(i); use(n); }
"""

RECURSION = """
void use(int);
static __attribute__((noinline)) int odd(int n);
static __attribute__((noinline)) int even(int n) { if (n == 0) return 1; use(n); return odd(n - 1) + 1; }
static __attribute__((noinline)) int odd(int n) { if (n == 0) return 0; use(n); return even(n - 1) + 2; }
int start(int n) { return even(n) * 3; }
"""

ADDRESSES = """
void sort(int (*)(int, int));
void use(int);
static int compared(int a, int b) { return a - b; }
static int listed(int a, int b) { return a + b; }
int (*const table[])(int, int) = {listed};
void start(void) { sort(compared); use(1); }
"""


POINTERS = """void use(int);
static void often(int x) { use(x); }
static void rarely(int x) { use(x + 1); }
void (*table[])(int) = {often, rarely};
void start(int n) { for (int i = 0; i < n; i++) table[i & 1](i); }
"""

SAMPLES = """often:4000:1999
 0: 1999
start:6000:1
 0: 2000
rarely:4:3
 0: 3
"""
"""A profile of `POINTERS` in the text format of AutoFDO: samples by line of a function."""


@pytest.fixture(params=[X86_64, AARCH64])
def triple(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def assembled(toolchain: Toolchain, folder: Path, code: str, *maps: str) -> dict[str, FunctionInstructions]:
    return estimated_instructions(compiled(toolchain, folder, with_maps(code, *maps), suffix="s"))


def test_frequencies_weigh_the_instructions_and_the_calls(toolchain: Toolchain, tmp_path: Path) -> None:
    found = assembled(toolchain, tmp_path, CODE, looping_map(runs=(8, 24)), HIDDEN_MAP)
    # One instruction in the entry, four in the loop with three runs, which also calls.
    assert found == {"visible": FunctionInstructions(1, 1 + 3 * 4), "hidden": FunctionInstructions(3, 3)}
    assert sum(each.total for each in found.values()) == 13 + 9
    never = assembled(toolchain, tmp_path, CODE, looping_map(runs=(0, 0)), HIDDEN_MAP)
    assert never["visible"].instructions == 0


def test_the_probability_of_a_branch_is_that_of_its_call(toolchain: Toolchain, tmp_path: Path, triple: str) -> None:
    found = estimated_instructions(compiled(toolchain, tmp_path, BRANCHES, "-O2", "-fPIC", triple=triple))
    assert found["choose"].entries == 1
    assert found["often"].entries == pytest.approx(0.9, rel=1e-3)
    assert found["rarely"].entries == pytest.approx(0.1, rel=1e-3)


def test_nested_loops_multiply_the_entries_and_a_recursion_is_entered_from_outside_alone(
    toolchain: Toolchain, tmp_path: Path, triple: str
) -> None:
    found = estimated_instructions(compiled(toolchain, tmp_path, LOOPS, "-Oz", "-fPIC", triple=triple))
    assert found["nested"].entries == 1
    assert found["outer"].entries > 10
    assert found["inner"].entries == pytest.approx(found["outer"].entries ** 2, rel=0.05)
    found = estimated_instructions(compiled(toolchain, tmp_path, RECURSION, "-O1", "-fPIC", triple=triple))
    assert {name: each.entries for name, each in found.items()} == {"start": 1, "even": 1, "odd": 0}


def test_a_function_whose_address_is_taken_is_entered_once(toolchain: Toolchain, tmp_path: Path, triple: str) -> None:
    for flags in (("-fno-pic",), ("-fPIC", "-ffunction-sections")):
        found = estimated_instructions(compiled(toolchain, tmp_path, ADDRESSES, "-O1", *flags, triple=triple))
        assert {name: each.entries for name, each in found.items()} == {"start": 1, "compared": 1, "listed": 1}


def test_with_a_profile_the_entries_are_measured(toolchain: Toolchain, tmp_path: Path, triple: str) -> None:
    profile = tmp_path / "samples"
    profile.write_text(SAMPLES)
    flags = ("-O2", "-fPIC", "-gline-tables-only", f"-fprofile-sample-use={profile}")
    found = estimated_instructions(compiled(toolchain, tmp_path, POINTERS, *flags, triple=triple))
    assert (found["often"].entries, found["rarely"].entries) == (1999, 3)


def test_a_measured_entry_by_a_call_is_counted_once(toolchain: Toolchain, tmp_path: Path) -> None:
    hidden = HIDDEN_MAP.replace(".byte 2, 2", ".byte 2, 3").replace(".uleb128 7", ".uleb128 50\n.uleb128 7")
    found = assembled(toolchain, tmp_path, CODE, looping_map(features=0x3, count=10), hidden)
    # The loop calls it three times per entry; the profile also counts entries from elsewhere.
    assert found["hidden"].entries == 50
    assert found["visible"] == FunctionInstructions(10, 13)


def test_a_conditional_tail_call_takes_what_the_other_exits_leave(toolchain: Toolchain, tmp_path: Path) -> None:
    code = CODE.replace("call hidden\n.Lafter:\n  nop\n", "jne hidden\n.Lafter:\n")
    split = looping_map(runs=(8, 8)).replace("2\n  .uleb128 0", "3\n  .uleb128 0", 1)
    split = split.replace("1, 0, .Lend-.Lloop, 1", "1, 0, .Lafter-.Lloop, 11, 2, 0, .Lend-.Lafter, 1") + ".uleb128 2\n"
    found = assembled(toolchain, tmp_path, code, split, HIDDEN_MAP)
    assert found["hidden"].entries == pytest.approx(1 - 2 / 8)


def test_each_further_name_of_a_function_adds_nothing(toolchain: Toolchain, tmp_path: Path) -> None:
    source = 'int original(int x) { return x * 7; }\nint another(int x) __attribute__((alias("original")));'
    found = estimated_instructions(compiled(toolchain, tmp_path, source, "-O1"))
    assert (found["another"].entries, found["original"].entries) == (1, 0)
    assert found["another"].instructions == found["original"].instructions > 0


def test_another_architecture_and_an_estimate_beyond_float64_are_errors(toolchain: Toolchain, tmp_path: Path) -> None:
    data = compiled(toolchain, tmp_path, ".text\nnop\n", triple="riscv64-unknown-linux-musl", suffix="s")
    with pytest.raises(MlgoError, match=r"^expected an object for x86-64 or AArch64 .* e_machine 243; use another"):
        estimated_instructions(data)
    count = 40
    bodies = [f"f{n}: call f{n + 1}\n.size f{n}, .-f{n}" for n in range(count)]
    kinds = "".join(f".type f{n},@function\n" for n in range(count + 1))
    code = f".text\n.globl f0\n{kinds}" + "\n".join(bodies) + f"\nf{count}: nop\n.size f{count}, .-f{count}\n"
    # An empty entry of frequency 1, then a block with the call that runs 2^60 times.
    maps = [f".byte 2, 2\n.quad f{n}\n.uleb128 2, 0, 0, 0, 0, 1, 0, 5, 1, 1, {2**60}" for n in range(count)]
    with pytest.raises(MlgoError, match="expected an estimate of instructions below the largest float64"):
        assembled(toolchain, tmp_path, code, *maps, f".byte 2, 2\n.quad f{count}\n.uleb128 1, 0, 0, 1, 1, 1")
