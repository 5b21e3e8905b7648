"""Programs of other machines in emulators: output, counts and failures."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from mlgo_gym.corpus.commands.targets import DEFAULT_TARGET, TARGETS
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.programs.counters import run_program
from mlgo_gym.programs.emulators import Emulator, find_emulator
from mlgo_gym.session.process.bounded_run import run_bounded

SOURCE = """
int main(int count, char **words) {
  volatile unsigned sum = 0;
  for (int i = 0; i < 1000 * count; i++) sum += i;
  return count == 9;
}
"""


def emulator(name: str) -> Emulator:
    """Return the emulator of a target, or skip the test."""
    try:
        found = find_emulator(TARGETS[name])
    except MlgoError as error:
        pytest.skip(str(error))
    if found is None:
        pytest.skip("this machine runs the programs itself")
    return found


@pytest.mark.slow  # the first link for a target compiles its C library
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", [name for name in TARGETS if name != DEFAULT_TARGET])
def test_counts_are_equal_in_two_runs_and_grow_with_the_work(name: str, tmp_path: Path) -> None:
    machine = emulator(name)
    source, program, folder = tmp_path / "program.c", tmp_path / "program", tmp_path / "folder"
    source.write_text(SOURCE)
    folder.mkdir()
    options = ["-target", *TARGETS[name].zig, "-static", "-O1", str(source), "-o", str(program)]
    built = run_bounded([*bundled_command("cc"), *options], writable=None, name="the bundled compiler")
    assert built.returncode == 0, built.stderr
    small, again, large = (
        run_program([str(program), *words], folder, timeout=60, emulator=machine).instructions or 0
        for words in ("a", "a", "aaaa")
    )
    assert small == again
    assert 3000 * 2 < large - small < 3000 * 40
    with pytest.raises(MlgoError, match=r"expected exit status 0 of .*, got exit status 1; the program is wrong"):
        run_program([str(program), *"a" * 8], folder, timeout=60, emulator=machine)
    assert list(folder.iterdir()) == []


def test_a_missing_emulator_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        MlgoError, match="expected qemu-arm on PATH for programs of thumbv7em, got none; install the package qemu"
    ):
        find_emulator(TARGETS["thumbv7em"])
    if platform.machine() == "x86_64":
        assert find_emulator(TARGETS[DEFAULT_TARGET]) is None


def test_webassembly_recurses_as_deep_as_two_megabytes_of_stack_allow(tmp_path: Path) -> None:
    machine = emulator("wasm32-wasi")
    wasmtime = pytest.importorskip("wasmtime")
    depth = """
    (module
      (memory (export "memory") 1)
      (func $depth (param i32) (result i32)
        (if (result i32) (i32.eqz (local.get 0))
          (then (i32.const 0))
          (else (i32.add (i32.const 1) (call $depth (i32.sub (local.get 0) (i32.const 1)))))))
      (func (export "_start")
        (if (i32.ne (call $depth (i32.const 20000)) (i32.const 20000)) (then (unreachable)))))
    """
    program = tmp_path / "program.wasm"
    program.write_bytes(wasmtime.wat2wasm(depth))
    assert (run_program([str(program)], tmp_path, timeout=60, emulator=machine).instructions or 0) > 20000
