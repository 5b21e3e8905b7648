"""Compiles and links for other machines with the wheel's libraries and linkers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from mlgo_clang.other_machines import library_target, linker_option, target_of
from tests.conftest import PROGRAMS
from tests.mlgo_clang.conftest import Run, text

HELLO = '#include <stdio.h>\nint main(int n, char **words) { printf("%s %d\\n", words[0] ? "hello" : "", n); }\n'
WASM = "--target=wasm32-wasip1"


@pytest.mark.slow  # the first link for a target compiles its C library
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("target", "runner"),
    [
        ("wasm32-wasip1", [sys.executable, "-m", "mlgo_gym.programs.webassembly", "report"]),
        ("aarch64-unknown-linux-musl", ["qemu-aarch64"]),
    ],
)
def test_a_program_for_another_machine_is_linked_without_an_sdk_and_runs(
    target: str, runner: list[str], run: Run, project: Path
) -> None:
    (project / "hello.c").write_text(HELLO)
    assert run(f"--target={target}", "-Oz", "-Wall", "-Werror", "-c", "hello.c", "-o", "hello.o").returncode == 0
    assert run(f"--target={target}", "-Oz", "-s", "hello.o", "-o", "program").returncode == 0
    if shutil.which(runner[0]) is None or find_spec("wasmtime") is None:
        pytest.skip("nothing runs the program")
    assert subprocess.run([*runner, "program"], cwd=project, capture_output=True, check=True).stdout == b"hello 1\n"


def test_headers_of_libc_and_of_libcxx_are_found_by_language(run: Run, project: Path) -> None:
    (project / "hello.c").write_text(HELLO)
    (project / "list.cpp").write_text("#include <vector>\n#include <cstdio>\nstd::vector<int> list;\n")
    for source in ("hello.c", "list.cpp"):
        result = run(WASM, "-Oz", "-c", source)
        assert (result.returncode, result.stderr) == (0, b"")


def test_webassembly_has_no_size_limit_unless_the_command_line_names_one(run: Run, project: Path) -> None:
    def compiled(policy: str, *words: str) -> int:
        options = (f"--mlgo-policy={policy}", "--mlgo-strict", WASM, "-Oz", *words)
        result = run(*options, "-c", str(PROGRAMS / "vectors.c"), "-o", "vectors.o")
        assert (result.returncode, result.stderr) == (0, b"")
        return text(project / "vectors.o")

    limit = ("-mllvm", "-ml-advisor-size-increase-threshold=2")
    plain = compiled("default")
    assert compiled("default", *limit) == plain
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
