"""Counters of executed instructions."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from mlgo_gym.errors import MlgoError, ToolchainError
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.programs.counters import (
    PROGRAM_TARGET,
    count_program,
    find_counter,
    has_hardware_counter,
    read_cachegrind,
    run_program,
)
from mlgo_gym.session.process.bounded_run import run_bounded
from mlgo_gym.session.process.confinement import confinement_support

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
static volatile long sum;
__attribute__((noinline)) void work(long n) { for (long i = 0; i < n; i++) sum += i; }
int main(int count, char **words) {
  switch (words[1][0]) {
  case 'w': work(atol(words[2])); printf("%ld\\n", sum); return 0;
  case 'm': { volatile char *all = malloc(64 << 20); for (long i = 0; i < 64 << 20; i += 4096) all[i] = 1; return 0; }
  case 'f': return fopen(words[2], "w") == NULL;
  case 'a': abort();
  case 'h': for (;;) sum++;
  }
  return 3;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.c").write_text(SOURCE)
    options = ["-target", PROGRAM_TARGET, "-static", "-O1", "program.c", "-o", "program"]
    answer = run_bounded([*bundled_command("cc"), *options], writable=None, folder=folder)
    assert answer.returncode == 0, answer.stderr
    return str(folder / "program")


needs_valgrind = pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")


def test_a_run_has_its_output_time_and_memory(program: str, tmp_path: Path) -> None:
    small = run_program([program, "w", "10"], tmp_path)
    large = run_program([program, "m"], tmp_path)
    assert small.output == b"45\n"
    assert 0 < small.seconds < 10
    assert small.memory < 32 << 20 < large.memory
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(("action", "ending"), [("x", "exit status 3"), ("a", "signal 6")])
def test_a_failure_names_its_ending(program: str, tmp_path: Path, action: str, ending: str) -> None:
    with pytest.raises(MlgoError, match=rf"expected exit status 0 of program, got {ending}; the program is wrong"):
        run_program([program, action], tmp_path)


def test_a_program_that_hangs_is_ended(program: str, tmp_path: Path) -> None:
    with pytest.raises((MlgoError, ToolchainError), match=r"did not finish within 1 s|signal 24|signal 9"):
        run_program([program, "h"], tmp_path, timeout=1)


@pytest.mark.skipif(not confinement_support()[0], reason="the kernel has no Landlock")
def test_a_program_cannot_write_outside_of_its_folder(program: str, tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    run_program([program, "f", str(folder / "inside")], folder)
    with pytest.raises(MlgoError, match="exit status 1"):
        run_program([program, "f", str(outside)], folder)
    assert not outside.exists()


@needs_valgrind
def test_cachegrind_counts_the_same_twice_and_by_function(program: str, tmp_path: Path) -> None:
    first, second = (count_program([program, "w", "100000"], tmp_path, "cachegrind") for _ in range(2))
    longer = count_program([program, "w", "300000"], tmp_path, "cachegrind")
    assert first.instructions == second.instructions == sum(first.functions.values())
    assert longer.instructions is not None
    assert first.instructions is not None
    assert longer.functions["work"] / first.functions["work"] == pytest.approx(3, rel=1e-3)
    # All else is the start of the C library, and equal up to the digits of the output.
    rest = [each.instructions - each.functions["work"] for each in (first, longer) if each.instructions]
    assert rest[0] == pytest.approx(rest[1], rel=0.05)


def test_the_trial_of_the_hardware_counter_runs(tmp_path: Path) -> None:
    count = run_program([shutil.which("true") or sys.executable], tmp_path)
    assert has_hardware_counter() == (count.instructions is not None)


@pytest.mark.skipif(not has_hardware_counter(), reason="the kernel allows no hardware counter")
def test_the_hardware_counts_a_program(program: str, tmp_path: Path) -> None:
    short, long = (count_program([program, "w", n], tmp_path, "hardware").instructions for n in ("100000", "10000000"))
    assert short is not None
    assert long is not None
    assert long - short == pytest.approx(9_900_000 * 4, rel=0.5)


def test_a_missing_counter_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlgo_gym.programs.counters.has_hardware_counter", lambda: False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MlgoError, match=r"expected a hardware counter .* or valgrind, got neither; install"):
        find_counter()


def test_the_lines_of_a_function_are_added() -> None:
    text = "desc: x\nevents: Ir\nfl=a.c\nfn=f\n1 10\n2 5\nfn=g\n0 1\nfl=b.c\nfn=f\n9 100\nsummary: 116\n"
    assert read_cachegrind(text) == {"f": 115, "g": 1}
