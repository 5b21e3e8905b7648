"""Runs of programs, also in emulators: output, time, memory, failures, confinement, and counts of instructions."""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path
from typing import Literal

import pytest

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.compiler.confinement import confinement_support
from mlgo_gym.corpus.targets import DEFAULT_TARGET, TARGETS
from mlgo_gym.errors import MlgoError, ToolchainError
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.tasks.metrics.counters import (
    PROGRAM_TARGET,
    Count,
    count_program,
    find_counter,
    find_emulator,
    has_hardware_counter,
    read_cachegrind,
    run_program,
)

SHELL = shutil.which("sh") or "/bin/sh"
SOURCE = """
static volatile long sum;
__attribute__((noinline)) void work(long n) { for (long i = 0; i < n; i++) sum += i; }
int main(int count, char **words) { work(1000 * count); return count == 9; }
"""


def test_a_run_has_its_output_time_memory_and_perhaps_instructions(tmp_path: Path) -> None:
    small = run_program([SHELL, "-c", "echo 45"], tmp_path)
    large = run_program([sys.executable, "-c", "b'x' * (128 << 20)"], tmp_path, timeout=60)
    assert small.output == b"45\n"
    assert 0 < small.seconds < 60
    assert small.memory < 32 << 20 < 128 << 20 < large.memory
    assert has_hardware_counter() == (small.instructions is not None)
    assert not any(tmp_path.iterdir())


def test_a_failure_names_its_ending(tmp_path: Path) -> None:
    for script, ending in (("exit 3", "exit status 3"), ("kill -6 $$", "signal 6")):
        with pytest.raises(MlgoError, match=rf"expected exit status 0 of .*sh, got {ending}; the program is wrong"):
            run_program([SHELL, "-c", script], tmp_path)
    with pytest.raises((MlgoError, ToolchainError), match=r"did not finish within 1 s|signal 24|signal 9"):
        run_program([SHELL, "-c", "while :; do :; done"], tmp_path, timeout=1)


@pytest.mark.skipif(not confinement_support()[0], reason="the kernel has no Landlock")
def test_a_program_cannot_write_outside_of_its_folder(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    run_program([SHELL, "-c", f"echo > {folder / 'inside'}"], folder)
    with pytest.raises(MlgoError, match="exit status"):
        run_program([SHELL, "-c", f"echo > {outside}"], folder)
    assert not outside.exists()


def test_a_missing_counter_or_emulator_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    emulator = "expected qemu-arm on PATH for programs of thumbv7em, got none; install the package qemu"
    with pytest.raises(MlgoError, match=emulator):
        find_emulator(TARGETS["thumbv7em"])
    if platform.machine() == "x86_64":
        assert find_emulator(TARGETS[DEFAULT_TARGET]) is None
    if not has_hardware_counter():
        with pytest.raises(MlgoError, match=r"expected a hardware counter .* or valgrind, got neither; install"):
            find_counter()


def test_the_lines_of_a_function_are_added() -> None:
    text = "desc: x\nevents: Ir\nfl=a.c\nfn=f\n1 10\n2 5\nfn=g\n0 1\nfl=b.c\nfn=f\n9 100\nsummary: 116\n"
    assert read_cachegrind(text) == {"f": 115, "g": 1}


@pytest.mark.slow  # the first link for a target compiles its C library
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["cachegrind", "hardware", "wasm32-wasi", "aarch64-linux"])
def test_counts_are_equal_in_two_runs_and_grow_with_the_work(name: str, tmp_path: Path) -> None:
    source, program, folder = tmp_path / "program.c", tmp_path / "program", tmp_path / "folder"
    source.write_text(SOURCE)
    folder.mkdir()
    counter: Literal["cachegrind", "hardware"] = "cachegrind" if name == "cachegrind" else "hardware"
    target: tuple[str, ...] = (PROGRAM_TARGET,)
    machine = None
    if name in TARGETS:
        try:
            target, machine = TARGETS[name].zig, find_emulator(TARGETS[name])
        except MlgoError as error:
            pytest.skip(str(error))
    elif shutil.which("valgrind") is None if name == "cachegrind" else not has_hardware_counter():
        pytest.skip(f"{name} counts no instructions here")
    command = [*bundled_command("cc"), "-target", *target, "-static", "-O1", str(source), "-o", str(program)]
    built = run_bounded(command, writable=None)
    assert built.returncode == 0, built.stderr

    def count(*words: str) -> Count:
        command = [str(program), *words]
        return run_program(command, folder, emulator=machine) if machine else count_program(command, folder, counter)

    small, again, large = count("a"), count("a"), count("a", "a", "a", "a")
    assert name == "hardware" or small.instructions == again.instructions
    assert 3000 * 2 < (large.instructions or 0) - (small.instructions or 0) < 3000 * 40
    if name == "cachegrind":
        assert small.instructions == sum(small.functions.values())
        assert large.functions["work"] / small.functions["work"] == pytest.approx(2.5, rel=1e-2)
    with pytest.raises(MlgoError, match=r"expected exit status 0 of .*, got exit status 1; the program is wrong"):
        count(*"a" * 8)
    assert list(folder.iterdir()) == []
