"""Links, other machines, and the one reader of the commands that clang's driver prints."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_clang.driver_commands import cc1_commands, shown_commands
from mlgo_clang.other_machines import library_target, target_of
from mlgo_gym.corpus.driver import cc1_line
from mlgo_gym.deploy.recipes import cc1_flags
from mlgo_gym.llvm.toolchain import Toolchain
from tests.mlgo_clang.conftest import Run


def test_a_missing_linker_is_named(run: Run, project: Path) -> None:
    path = str(project)
    result = run("-Oz", "calls.c", "-o", "program", PATH=path)
    assert result.returncode == 1
    assert result.stderr == (
        b"mlgo-clang: error: expected the linker ld on PATH, got none; install it, for instance with binutils or lld\n"
    )
    assert run("-Oz", "-c", "calls.c", PATH=path).returncode == run("-Oz", "-E", "calls.c", PATH=path).returncode == 0
    assert b"no input files" in run(PATH=path).stderr


HELLO = '#include <stdio.h>\nint main(int n, char **words) { printf("%s %d\\n", words[0] ? "hello" : "", n); }\n'
WASM = "--target=wasm32-wasip1"


@pytest.mark.slow  # the first link for a target compiles its C library
@pytest.mark.timeout(1200)
def test_a_program_for_webassembly_is_linked_without_an_sdk_and_runs(run: Run, project: Path) -> None:
    pytest.importorskip("wasmtime")
    (project / "hello.c").write_text(HELLO)
    assert run(WASM, "-Oz", "-Wall", "-Werror", "-c", "hello.c", "-o", "hello.o").returncode == 0
    assert run(WASM, "-Oz", "-s", "hello.o", "-o", "program").returncode == 0
    runner = [sys.executable, "-m", "mlgo_gym.tasks.metrics.webassembly", "report", "program"]
    assert subprocess.run(runner, cwd=project, capture_output=True, check=True).stdout == b"hello 1\n"


def test_headers_of_libc_and_of_libcxx_are_found_by_language(run: Run, project: Path) -> None:
    (project / "hello.c").write_text(HELLO)
    (project / "list.cpp").write_text("#include <vector>\n#include <cstdio>\nstd::vector<int> list;\n")
    for source in ("hello.c", "list.cpp"):
        result = run(WASM, "-Oz", "-c", source)
        assert (result.returncode, result.stderr) == (0, b"")


def test_the_last_target_counts_and_has_the_wheels_library() -> None:
    for words, target, library in (
        ("--target=wasm32-wasip1", "wasm32-wasip1", "wasm32-wasi"),
        ("-target riscv64-unknown-linux-musl", "riscv64-unknown-linux-musl", "riscv64-linux-musl"),
        ("--target=wasm32-wasip1 --sysroot=/opt/wasi", "wasm32-wasip1", ""),
        ("--target=wasm32-wasip1 --target=aarch64-linux-gnu", "aarch64-linux-gnu", ""),
        ("-Oz", "", ""),
    ):
        assert (target_of(words.split()), library_target(words.split())) == (target, library)


WORDS = ['a "quote"', "a $dollar", "a back\\slash", "\\$", '\\"', "two\nlines", "", "-cc1", "é", " \t"]


def test_each_word_is_read_as_it_was_given_by_every_caller(
    toolchain: Toolchain, clang: dict[str, list[str]], tmp_path: Path
) -> None:
    source = tmp_path / "a.c"
    source.touch()
    for word in WORDS:
        words = ["-c", f"-DX={word}", "-mllvm", f"-pass-remarks={word}", str(source)]
        shown = subprocess.run([*clang["gcc"], *words, "-###"], capture_output=True, check=True)
        (line,) = cc1_commands(shown.stderr.decode())
        assert line[line.index("-D") + 1] == f"X={word}"
        assert line[-1] == str(source)
        assert {f"X={word}", f"-pass-remarks={word}"} <= set(cc1_line(toolchain, words))
        assert f"-pass-remarks={word}" in cc1_flags([*clang["gcc"], *words])


def test_a_driver_that_fails_or_is_silent_shows_nothing(tmp_path: Path) -> None:
    driver = tmp_path / "clang"
    driver.write_text("#!/bin/sh\necho ' \"a\"' >&2\nexec sleep 60\n")
    driver.chmod(0o755)
    assert shown_commands([str(driver)], 0.05) == []
    assert shown_commands(["/bin/false"]) == []
