"""The first C++ link: whether the bundled compiler has built its library is known, and it can be had beforehand."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlgo_gym.cli.application import application
from mlgo_gym.corpus.link_library import build_libraries, library_is_built
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
    assert "`mlgo-gym corpus prepare` does that beforehand" in result.stderr
    (tmp_path / "zig" / "o" / "digest").mkdir(parents=True)
    (tmp_path / "zig" / "o" / "digest" / "libc++.a").touch()
    words[3] = "another"
    assert "prepare" not in CliRunner().invoke(application, words).stderr


def test_an_installed_clang_needs_nothing_prepared() -> None:
    installed = Toolchain(("/usr/bin/clang",), (22, 0, 0), "installed", bundled=False)
    assert list(build_libraries(installed)) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_libraries_are_built_for_each_kind_of_link(toolchain: Toolchain) -> None:
    kinds = list(build_libraries(toolchain))
    assert kinds[0] == "C -O0"
    assert kinds[-1] == "C++ -O2 -shared -fPIC"
    assert library_is_built()
