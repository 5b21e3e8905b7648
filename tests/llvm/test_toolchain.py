"""The compiler: found by path, name or environment, refused with a remedy, remembered."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command, find_toolchain
from tests.conftest import write_program


def test_a_clang_is_found_by_its_path_by_its_name_and_by_the_environment(
    counted_clang: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    toolchain = find_toolchain()
    assert (toolchain.bundled, toolchain.command) == (True, bundled_command())
    assert (toolchain.version, toolchain.version_text) == ((22, 1, 8), "22.1.8")
    program, _ = counted_clang
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("MLGO_CLANG", str(program))
    assert find_toolchain("bundled").bundled
    for words in ((), (str(program),), (program.name,)):
        by_name = find_toolchain(*words)
        assert (by_name.command, by_name.bundled) == ((str(program),), False)
    # A relative path is valid after a change of folder.
    monkeypatch.chdir(program.parent)
    relative = find_toolchain(f"./{program.name}")
    monkeypatch.chdir(tmp_path)
    assert relative.run(["--version"]).returncode == 0


def test_a_missing_or_another_program_and_an_old_clang_are_refused(tmp_path: Path) -> None:
    for name in ("no-such-clang", "/no/such/clang"):
        message = r"no program '.*no.such.clang' .* leave it out to use the bundled one"
        with pytest.raises(ToolchainError, match=message):
            find_toolchain(name)
    other = r"is not clang: --version printed 'gcc \(Debian\) 12\.2\.0'"
    old = r"clang 17 or newer is needed, .*clang-x is clang version 16\.0\.6"
    for content, mode, message in (
        (b"text", 0o644, "is on PATH or executable"),
        (b"\x00\x01\x02", 0o755, "cannot be started"),
        (b"#!/bin/sh\necho 'gcc (Debian) 12.2.0'\n", 0o755, other),
        (b"#!/bin/sh\necho 'Debian clang version 16.0.6 (15~deb12u1)'\n", 0o755, old),
    ):
        path = tmp_path / "clang-x"
        path.write_bytes(content)
        path.chmod(mode)
        with pytest.raises(ToolchainError, match=message):
            find_toolchain(str(path))
    vendor = write_program(tmp_path / "clang", "echo 'Acme clang version 17.0.6-rc2 (git abc)'")
    assert find_toolchain(str(vendor)).version == (17, 0, 6)


def test_a_compiler_is_remembered_until_its_binary_changes(counted_clang: tuple[Path, Path], own_cache: Path) -> None:
    program, starts = counted_clang
    code = f"from mlgo_gym.llvm.toolchain import find_toolchain; print(find_toolchain({str(program)!r}).version_text)"
    printed = [subprocess.check_output([sys.executable, "-c", code], text=True) for _ in range(2)]
    assert printed == ["22.1.8\n"] * 2
    assert starts.read_text().count("started") == 1
    before = find_toolchain(str(program))
    program.write_text(program.read_text() + "# another\n")
    assert before.identity != find_toolchain(str(program)).identity
    assert starts.read_text().count("started") == 2


def test_a_compiler_that_hangs_is_ended_and_one_that_is_gone_is_named(tmp_path: Path) -> None:
    hanging = Toolchain((str(write_program(tmp_path / "clang", "exec sleep 60")),), (17, 0, 0), "x", bundled=False)
    with pytest.raises(ToolchainError, match=r"was to finish within 0\.1 s"):
        hanging.run(["-c"], timeout=0.1)
    gone = Toolchain((str(tmp_path / "gone"),), (17, 0, 0), "x", bundled=False)
    with pytest.raises(ToolchainError, match="cannot be started"):
        gone.run(["--version"])
