"""The libraries of the bundled compiler: detected, and built before the first link."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.corpus.recording import link_library
from mlgo_gym.corpus.recording.link_library import build_libraries, library_is_built
from mlgo_gym.llvm.toolchain import Toolchain


def test_a_library_in_the_compilers_cache_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(tmp_path))
    assert not library_is_built()
    (tmp_path / "o" / "digest").mkdir(parents=True)
    (tmp_path / "o" / "digest" / "libc++.a").touch()
    assert library_is_built()


def test_a_recording_says_that_the_first_cxx_link_will_take_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", str(tmp_path / "zig"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.c").write_text("int f(int x) { return x; }\n")
    words = ["corpus", "record", "--output", "corpus", "--", "sh", "-ec", "$CC -c f.c"]
    result = CliRunner().invoke(application, words)
    assert result.exit_code == 0
    assert "run `mlgo-gym corpus prepare` first" in result.stderr
    (tmp_path / "zig" / "o" / "digest").mkdir(parents=True)
    (tmp_path / "zig" / "o" / "digest" / "libc++.a").touch()
    words[3] = "another"
    assert "prepare" not in CliRunner().invoke(application, words).stderr


def test_an_installed_clang_needs_nothing_prepared() -> None:
    installed = Toolchain(("/usr/bin/clang",), (22, 0, 0), "installed", bundled=False)
    assert list(build_libraries(installed)) == []


def test_every_kind_of_link_is_done_once(toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def note(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("mlgo_gym.corpus.recording.link_library.run_bounded", note)
    kinds = list(build_libraries(toolchain))
    assert (len(kinds), kinds[0], kinds[-1]) == (8, "C -O0", "C++ -O2 -shared -fPIC")
    assert [command[-6:-3] for command in commands][-1] == ["-O2", "-shared", "-fPIC"]
    assert [command[-3] for command in commands] == ["program.c"] * 4 + ["program.cpp"] * 4


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_libraries_are_built_by_a_link(toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_library, "_OPTIONS", (("-O2",),))  # each kind takes minutes with an empty cache
    assert list(build_libraries(toolchain)) == ["C -O2", "C++ -O2"]
    assert library_is_built()
