"""Links, versions, folders and other machines: what the driver shares with clang and with the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_clang.errors import MlgoError
from mlgo_clang.object_size import text_size
from mlgo_clang.other_machines import library_target, target_of
from mlgo_gym.corpus.driver import NATIVE, driver_options, linker_command
from mlgo_gym.llvm.object_file import object_sizes
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


def test_a_native_recording_uses_the_same_command(toolchain: Toolchain, clang: dict[str, list[str]]) -> None:
    for mode, language in (("gcc", "c"), ("g++", "c++")):
        assert linker_command(toolchain, language, NATIVE) == clang[mode]
    assert [word for word in clang["gcc"] if word.startswith("-")] == driver_options(toolchain, NATIVE)[0]


@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "armeb-linux-gnueabi", "wasm32-wasip1"])
def test_objects_have_the_sizes_of_the_environments(tmp_path: Path, clang: dict[str, list[str]], target: str) -> None:
    source, output = tmp_path / "two.c", tmp_path / "two.o"
    source.write_text("int one(int n) { return n * n; }\nint table[9] = {1};\nint two(int n) { return table[n]; }\n")
    command = [*clang["gcc"], f"--target={target}", "-Os", "-ffunction-sections", "-c", str(source), "-o", str(output)]
    subprocess.run(command, check=True)
    data = output.read_bytes()
    assert text_size(data) == object_sizes(data).text > 0
    damages = [data[: len(data) // 2]]
    damages += (data[:9], data[:-1], data + b"\x0a\xff") if target.startswith("wasm") else (b"", data[:40])
    for damaged in damages:
        with pytest.raises(MlgoError, match=r"is cut off|expected an ELF object, got"):
            text_size(damaged)


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
