"""Compiles and links for other machines with the wheel's libraries and linkers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_clang.interactive import WITHOUT_SIZE_LIMIT
from mlgo_clang.other_machines import header_words, library_target, linker_option, target_of
from tests.conftest import PROGRAMS
from tests.mlgo_clang.conftest import Run

HELLO = (
    '#include <stdio.h>\nint main(int count, char **words) { printf("%s %d\\n", words[0] ? "hello" : "", count); }\n'
)


@pytest.fixture
def hello(project: Path) -> Path:
    (project / "hello.c").write_text(HELLO)
    return project


def test_webassembly_compiles_links_and_runs_without_an_sdk(run: Run, hello: Path) -> None:
    target = "--target=wasm32-wasip1"
    compiled = run(target, "-Oz", "-Wall", "-Werror", "-c", "hello.c", "-o", "hello.o")
    assert (compiled.returncode, compiled.stderr) == (0, b"")
    assert run(target, "-Oz", "-s", "hello.o", "-o", "hello.wasm").returncode == 0
    pytest.importorskip("wasmtime", reason="extra run-time")
    command = [sys.executable, "-m", "mlgo_gym.programs.webassembly", "report", "hello.wasm"]
    assert subprocess.run(command, cwd=hello, capture_output=True, check=True).stdout == b"hello 1\n"


def test_webassembly_has_no_size_limit_unless_the_command_line_names_one(run: Run, hello: Path) -> None:
    def compiled(policy: str, *words: str) -> bytes:
        options = (f"--mlgo-policy={policy}", "--mlgo-strict", "--target=wasm32-wasip1", "-Oz")
        result = run(*options, *words, "-c", str(PROGRAMS / "vectors.c"), "-o", "vectors.o")
        assert (result.returncode, result.stderr) == (0, b"")
        return (hello / "vectors.o").read_bytes()

    limit = ("-mllvm", "-ml-advisor-size-increase-threshold=2")
    plain = compiled("default")
    assert compiled("default", *limit) == compiled("default", "-mllvm", WITHOUT_SIZE_LIMIT) == plain
    for policy in ("threshold:5", "inline-oz"):
        assert compiled(policy) == plain
        assert len(compiled(policy, *limit)) > len(plain)
        assert compiled(f"default,{policy}", *limit) == compiled(f"{policy},default", *limit) == plain


def test_a_linux_program_for_another_machine_runs_in_an_emulator(run: Run, hello: Path) -> None:
    target = "--target=aarch64-unknown-linux-musl"
    assert run(target, "-Oz", "-c", "hello.c", "-o", "hello.o").returncode == 0
    assert run(target, "-march=armv8-a", "-Oz", "-s", "hello.o", "-o", "program").returncode == 0
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("qemu-aarch64 is not installed")
    assert (
        subprocess.run(["qemu-aarch64", "program"], cwd=hello, capture_output=True, check=True).stdout == b"hello 1\n"
    )


def test_headers_of_libc_and_of_libcxx_are_found_by_language(run: Run, hello: Path) -> None:
    (hello / "list.cpp").write_text(
        "#include <vector>\n#include <cstdio>\nint f() { return std::vector<int>{1}[0]; }\n"
    )
    for source in ("hello.c", "list.cpp"):
        found = run("--target=wasm32-wasip1", "-Oz", "-c", source)
        assert (found.returncode, found.stderr) == (0, b"")


def test_the_wheels_compiler_names_its_headers_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLGO_CACHE", str(tmp_path / "cache"))
    compiler = tmp_path / "zig"

    def install(folder: str) -> None:
        compiler.write_text(
            f'#!/bin/sh\necho x >> {tmp_path}/starts\necho \' "zig" "-cc1" "-isystem" "{folder}"\' >&2\n'
        )
        compiler.chmod(0o755)

    install("/include")
    expected = ["-nostdinc"]
    for word in ("-c-isystem", "/include", "-cxx-isystem", "/include"):
        expected += ["-Xclang", word]
    assert [header_words(str(compiler), "wasm32-wasi") for _ in range(2)] == [expected, expected]
    assert (tmp_path / "starts").read_text() == "x\n"
    install("/new")
    os.utime(compiler, (1, 1))
    assert "/new" in header_words(str(compiler), "wasm32-wasi")
    (tmp_path / "file").touch()
    monkeypatch.setenv("MLGO_CACHE", str(tmp_path / "file"))
    assert "/new" in header_words(str(compiler), "wasm32-wasi")


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["--target=wasm32-wasip1"], "wasm32-wasi"),
        (["-target", "wasm32-unknown-wasi"], "wasm32-wasi"),
        (["--target=riscv64-unknown-linux-musl"], "riscv64-linux-musl"),
        (["--target=wasm32-wasip1", "--sysroot=/opt/wasi"], ""),
        (["--target=wasm32-wasip2"], ""),
        (["--target=aarch64-linux-gnu"], ""),
        (["--target=wasm32"], ""),
        ([], ""),
    ],
)
def test_a_command_line_has_the_wheels_library_unless_it_names_its_own(words: list[str], target: str) -> None:
    assert library_target(words) == target


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["-cc1", "-triple", "wasm32-unknown-wasip1", "-Oz"], "wasm32-unknown-wasip1"),
        (["--crate-name", "x", "--target", "wasm32-wasip1"], "wasm32-wasip1"),
        (["--target=wasm32-wasip1", "--target=aarch64-linux-musl"], "aarch64-linux-musl"),
        (["-Oz"], ""),
    ],
)
def test_the_last_target_of_a_driver_of_cc1_or_of_rustc_counts(words: list[str], target: str) -> None:
    assert target_of(words) == target


def test_lld_of_the_wheel_links_without_an_operating_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLGO_CACHE", str(tmp_path))
    script = tmp_path / "mlgo-clang" / "ld.lld"
    assert linker_option("/somewhere/zig", ["--target=thumbv7em-none-eabi"]) == [f"--ld-path={script}"]
    assert "'/somewhere/zig' ld.lld" in script.read_text()
    linker_option("/elsewhere/zig", ["--target=riscv32-unknown-elf"])
    assert "'/elsewhere/zig' ld.lld" in script.read_text()
    assert linker_option("/somewhere/zig", ["--target=thumbv7em-none-eabi", "-fuse-ld=gold"]) == []
    assert linker_option("/somewhere/zig", ["--target=aarch64-linux-gnu"]) == []
    monkeypatch.setenv("MLGO_CACHE", str(script))
    assert linker_option("/somewhere/zig", ["--target=thumbv7em-none-eabi"]) == []
