"""Which clang: found by path, name or environment, refused with a remedy, remembered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command, find_toolchain


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_without_a_choice_the_bundled_clang_is_used() -> None:
    found = find_toolchain()
    assert found.bundled
    assert found.command == bundled_command()
    assert found.version == (22, 1, 8)
    assert found.version_text == "22.1.8"


def test_the_installed_clangs_say_their_version(any_toolchain: Toolchain) -> None:
    answer = any_toolchain.run(["--version"])
    assert f"clang version {any_toolchain.version_text}" in answer.stdout


def test_a_clang_is_found_by_its_path(counted_clang: tuple[Path, Path]) -> None:
    program, _ = counted_clang
    found = find_toolchain(str(program))
    assert found.command == (str(program),)
    assert not found.bundled


def test_a_clang_is_found_by_its_name(counted_clang: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    program, _ = counted_clang
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    assert find_toolchain(program.name).command == (str(program),)


def test_a_relative_path_is_good_after_a_change_of_folder(
    counted_clang: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program, _ = counted_clang
    monkeypatch.chdir(program.parent)
    found = find_toolchain(f"./{program.name}")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert found.run(["--version"]).returncode == 0


def test_the_environment_chooses(counted_clang: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    program, _ = counted_clang
    monkeypatch.setenv("MLGO_CLANG", str(program))
    assert find_toolchain().command == (str(program),)


def test_an_argument_is_stronger_than_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLGO_CLANG", "/no/such/clang")
    assert find_toolchain("bundled").bundled


@pytest.mark.parametrize("name", ["no-such-clang", "/no/such/clang"])
def test_a_missing_program_is_named_with_a_remedy(name: str) -> None:
    with pytest.raises(ToolchainError, match=r"no program '.*no.such.clang' .* leave it out to use the bundled one"):
        find_toolchain(name)


def test_a_file_that_cannot_be_executed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "clang"
    path.write_text("text")
    with pytest.raises(ToolchainError, match="is on PATH or executable"):
        find_toolchain(str(path))


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "clang"
    path.write_bytes(b"\x00\x01\x02")
    path.chmod(0o755)
    with pytest.raises(ToolchainError, match="cannot be started"):
        find_toolchain(str(path))


def test_another_program_is_refused_with_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"is not clang: --version printed 'gcc \(Debian\) 12\.2\.0'"):
        find_toolchain(str(script(tmp_path / "gcc", "echo 'gcc (Debian) 12.2.0'")))


def test_a_clang_that_is_too_old_is_refused(tmp_path: Path) -> None:
    old = script(tmp_path / "clang-16", "echo 'Debian clang version 16.0.6 (15~deb12u1)'")
    with pytest.raises(ToolchainError, match=r"clang 17 or newer is needed, .*clang-16 is clang version 16\.0\.6"):
        find_toolchain(str(old))


def test_a_vendor_may_write_around_the_version(tmp_path: Path) -> None:
    new = script(tmp_path / "clang", "echo 'Acme clang version 17.0.6-rc2 (git abc)'")
    assert find_toolchain(str(new)).version == (17, 0, 6)


def test_a_second_process_starts_no_clang(counted_clang: tuple[Path, Path], own_cache: Path) -> None:
    program, starts = counted_clang
    code = f"from mlgo_gym.llvm.toolchain import find_toolchain; print(find_toolchain({str(program)!r}).version_text)"
    said = [subprocess.check_output([sys.executable, "-c", code], text=True) for _ in range(2)]
    assert said == ["22.1.8\n"] * 2
    assert starts.read_text().count("started") == 1


def test_a_replaced_binary_is_another_compiler(counted_clang: tuple[Path, Path]) -> None:
    program, starts = counted_clang
    before = find_toolchain(str(program))
    program.write_text(program.read_text() + "# another\n")
    after = find_toolchain(str(program))
    assert before.identity != after.identity
    assert starts.read_text().count("started") == 2


def test_a_compiler_that_hangs_is_ended(tmp_path: Path) -> None:
    toolchain = Toolchain((str(script(tmp_path / "clang", "exec sleep 60")),), (17, 0, 0), "x", bundled=False)
    with pytest.raises(ToolchainError, match=r"was to finish within 0\.1 s"):
        toolchain.run(["-c"], timeout=0.1)


def test_a_compiler_that_went_away_is_a_clear_error(tmp_path: Path) -> None:
    toolchain = Toolchain((str(tmp_path / "gone"),), (17, 0, 0), "x", bundled=False)
    with pytest.raises(ToolchainError, match="cannot be started"):
        toolchain.run(["--version"])
