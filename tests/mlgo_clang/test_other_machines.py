"""Compiles and links for other machines with the wheel's libraries and linkers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_clang.other_machines import library_target, linker_option, target_of
from tests.conftest import PROGRAMS
from tests.mlgo_clang.conftest import Run, text

HELLO = (
    '#include <stdio.h>\nint main(int count, char **words) { printf("%s %d\\n", words[0] ? "hello" : "", count); }\n'
)
WASM = "--target=wasm32-wasip1"
SIZE_LIMIT = "-ml-advisor-size-increase-threshold"


@pytest.fixture
def hello(project: Path) -> Path:
    (project / "hello.c").write_text(HELLO)
    (project / "list.cpp").write_text(
        "#include <vector>\n#include <cstdio>\nint f() { return std::vector<int>{1}[0]; }\n"
    )
    return project


@pytest.mark.slow  # the first link for a target compiles its C library
@pytest.mark.timeout(1200)
def test_webassembly_links_and_runs_without_an_sdk(run: Run, hello: Path) -> None:
    assert run(WASM, "-Oz", "-Wall", "-Werror", "-c", "hello.c", "-o", "hello.o").returncode == 0
    assert run(WASM, "-Oz", "-s", "hello.o", "-o", "hello.wasm").returncode == 0
    pytest.importorskip("wasmtime", reason="extra run-time")
    command = [sys.executable, "-m", "mlgo_gym.programs.webassembly", "report", "hello.wasm"]
    assert subprocess.run(command, cwd=hello, capture_output=True, check=True).stdout == b"hello 1\n"


@pytest.mark.slow  # the first link for a target compiles its C library
@pytest.mark.timeout(1200)
def test_a_linux_program_for_another_machine_runs_in_an_emulator(run: Run, hello: Path) -> None:
    target = "--target=aarch64-unknown-linux-musl"
    assert run(target, "-Oz", "-c", "hello.c", "-o", "hello.o").returncode == 0
    assert run(target, "-march=armv8-a", "-Oz", "-s", "hello.o", "-o", "program").returncode == 0
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("qemu-aarch64 is not installed")
    program = subprocess.run(["qemu-aarch64", "program"], cwd=hello, capture_output=True, check=True)
    assert program.stdout == b"hello 1\n"


def test_headers_of_libc_and_of_libcxx_are_found_by_language(run: Run, hello: Path) -> None:
    for source in ("hello.c", "list.cpp"):
        result = run(WASM, "-Oz", "-c", source)
        assert (result.returncode, result.stderr) == (0, b"")


def test_webassembly_has_no_size_limit_unless_the_command_line_names_one(run: Run, project: Path) -> None:
    def compiled(policy: str, *words: str) -> int:
        options = (f"--mlgo-policy={policy}", "--mlgo-strict", WASM, "-Oz", *words)
        result = run(*options, "-c", str(PROGRAMS / "vectors.c"), "-o", "vectors.o")
        assert (result.returncode, result.stderr) == (0, b"")
        return text(project / "vectors.o")

    limit = ("-mllvm", f"{SIZE_LIMIT}=2")
    plain = compiled("default")
    assert compiled("default", *limit) == compiled("default", "-mllvm", f"{SIZE_LIMIT}=1000") == plain
    assert compiled("threshold:5") == compiled("inline-oz") == plain
    assert compiled("threshold:5", *limit) > plain
    assert compiled("default,threshold:5", *limit) == compiled("threshold:5,default", *limit) == plain


def test_the_last_target_counts_and_has_the_wheels_library() -> None:
    for words, target, library in (
        ("--target=wasm32-wasip1", "wasm32-wasip1", "wasm32-wasi"),
        ("-target wasm32-unknown-wasi", "wasm32-unknown-wasi", "wasm32-wasi"),
        ("--target=riscv64-unknown-linux-musl", "riscv64-unknown-linux-musl", "riscv64-linux-musl"),
        ("--target=wasm32-wasip1 --sysroot=/opt/wasi", "wasm32-wasip1", ""),
        ("--target=wasm32-wasip2", "wasm32-wasip2", ""),
        ("--target=wasm32-wasip1 --target=aarch64-linux-gnu", "aarch64-linux-gnu", ""),
        ("-Oz", "", ""),
    ):
        assert (target_of(words.split()), library_target(words.split())) == (target, library)
    for words in ("-cc1 -triple wasm32-unknown-wasip1 -Oz", "--crate-name x --target wasm32-unknown-wasip1"):
        assert target_of(words.split()) == "wasm32-unknown-wasip1"


def test_lld_of_the_wheel_links_without_an_operating_system(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = own_cache / "mlgo-clang" / "ld.lld"
    assert linker_option("/somewhere/zig", ["--target=thumbv7em-none-eabi"]) == [f"--ld-path={script}"]
    assert "'/somewhere/zig' ld.lld" in script.read_text()
    linker_option("/elsewhere/zig", ["--target=riscv32-unknown-elf"])
    assert "'/elsewhere/zig' ld.lld" in script.read_text()
    assert linker_option("/somewhere/zig", ["--target=thumbv7em-none-eabi", "-fuse-ld=gold"]) == []
    assert linker_option("/somewhere/zig", ["--target=aarch64-linux-gnu"]) == []
    monkeypatch.setenv("MLGO_CACHE", str(script))  # a file is no folder
    assert linker_option("/somewhere/zig", ["--target=thumbv7em-none-eabi"]) == []
