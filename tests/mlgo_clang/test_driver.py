"""Command lines of the driver, and what it starts for them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_clang import command_lines
from mlgo_clang.command_lines import ask_driver, cc1_commands, read_invocation, shown_commands, target_of
from mlgo_clang.counters import counters_path
from mlgo_clang.other_machines import library_headers, library_target
from mlgo_gym.corpus.driver import cc1_line
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.search.build_recipes import cc1_flags
from tests.mlgo_clang.conftest import DRIVERS, Run, counted


def test_a_missing_linker_is_named(run: Run, project: Path) -> None:
    path = str(project)
    result = run("--mlgo-policy=default", "-Oz", "calls.c", "-o", "program", PATH=path)
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
    runner = [sys.executable, "-m", "mlgo_gym.episode.metrics.webassembly", "report", "program"]
    assert subprocess.run(runner, cwd=project, capture_output=True, check=True).stdout == b"hello 1\n"


def test_headers_of_libc_and_of_libcxx_are_found_by_language_and_without_a_home_folder(
    run: Run, project: Path, clang: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "hello.c").write_text(HELLO)
    (project / "list.cpp").write_text("#include <vector>\n#include <cstdio>\nstd::vector<int> list;\n")
    for source in ("hello.c", "list.cpp"):
        result = run(WASM, "-Oz", "-c", source)
        assert (result.returncode, result.stderr) == (0, b"")
    found = library_headers(clang["g++"][0], ["wasm32-wasi"])
    assert found
    for variable in ("ZIG_GLOBAL_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    assert library_headers(clang["g++"][0], ["wasm32-wasi"]) == found


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


@pytest.mark.parametrize(
    ("words", "level"),
    [
        ("-O2 -Oz", "z"),
        ("-O", "1"),
        ("-Og", "1"),
        ("-O4 -DX=-Oz", "3"),
        ("-Oz -Ofast", "3"),
        ("@flags.rsp", "s"),
        ("-O2 -Xclang -Oz", "z"),
        ("-Xclang=-Oz -O2", "z"),
        ("-O2 -Wp,-DX,-Oz", "z"),
        ("-O2 -Xpreprocessor -Oz", "z"),
        ("-O2 -Xarch_host -Oz", "z"),
        ("-O2 -Xarch_x86_64 -Oz", "z"),
        ("-O2 --optimize=z", "z"),
        ("--config=./outer.cfg", "s"),
        ("--config=./outer.cfg --", "s"),
        ("--config ./outer.cfg -O2", "2"),
        ("--config=./lto.cfg", "its other flags request other work"),
        ("--config=./advisor.cfg", "it selects an advisor"),
        ("--config=nowhere.cfg -Oz", "its other flags request other work"),
    ],
)
def test_the_level_is_that_of_all_flags_that_clang_finds(
    words: str, level: str, clang: dict[str, list[str]], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (
        ("flags.rsp", "-O2 -Os"),
        ("outer.cfg", "-O3 @inner.cfg"),
        ("inner.cfg", "-Os"),
        ("lto.cfg", "-Oz -flto"),
        ("advisor.cfg", "-Oz -mllvm -enable-ml-inliner=release"),
    ):
        (project / name).write_text(text)
    monkeypatch.chdir(project)
    arguments = ["-c", *words.split(), "calls.c"]
    invocation = read_invocation(arguments)
    if not invocation.is_clear:
        invocation, _ = ask_driver(clang["gcc"], arguments, invocation)
    assert (invocation.reason or invocation.level, invocation.source) == (level, "calls.c")


def test_flags_of_variables_files_and_scripts_are_found(
    run: Run, clang: dict[str, list[str]], project: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLGO_POLICY", "never")
    program = project / "clang"
    program.write_bytes(b"\x7fELF")
    assert not command_lines.finds_flags_elsewhere(str(program))
    (project / "clang.cfg").touch()
    assert command_lines.finds_flags_elsewhere(str(program))
    program.write_text(f'#!/bin/sh\nexec {shlex.join(clang["gcc"])} "$@" -Oz\n')
    program.chmod(0o755)
    assert run("--mlgo-clang=./clang", "-c", "calls.c").returncode == 0
    assert run("-c", "calls.c", CCC_OVERRIDE_OPTIONS="+-Oz").returncode == 0
    assert counted("compiled with a policy") == 2
    small = project / "small.cfg"
    for flags, machine in (("-Os", 62), ("-O2", 62), ("-Oz --target=aarch64-linux-gnu", 183)):
        small.write_text(flags)
        assert run("--config=./small.cfg", "-c", "calls.c").returncode == 0
        assert (project / "calls.o").read_bytes()[18] == machine
    assert counted("compiled with a policy") == 4


def test_a_build_whose_compiles_use_no_policy_gets_one_warning(run: Run, project: Path, own_cache: Path) -> None:
    make = project / "make"
    shutil.copy("/bin/sh", make)

    def warnings(words: str, **variables: str) -> list[bytes]:
        """Build twice at once, in processes of shells in one of make, which may be part of the build of the tests."""
        Path(counters_path()).with_name("warned").unlink(missing_ok=True)
        script = f"sh -c '{DRIVERS['gcc']} {words} & {DRIVERS['gcc']} {words}; wait'; {DRIVERS['gcc']} {words}"
        return run(before=(make, "-c", f"{script}; true #"), **variables).stderr.splitlines()

    start = b"mlgo-clang: warning: calls.c, the first of this build, is compiled by clang alone: "
    level = b"expected -Os or -Oz, got -O2; compile with -Os or -Oz, or set MLGO_LEVELS=2"
    for variables, message in (
        ({"MLGO_POLICY": "never"}, level),
        ({}, level),
        ({"MLGO_POLICY": "default"}, None),
        ({"MLGO_LEVELS": "2", "MLGO_POLICY": "never"}, None),
    ):
        assert warnings("-O2 -c calls.c", **variables) == ([] if message is None else [start + message])
    assert counted("because not at a level of MLGO_LEVELS: -O2") == 6
    (lto,) = warnings("-Oz -flto -c calls.c -o calls.bc")
    assert lto == start + b"-flto requests other work; build without -flto, or use the plugin"
    assert warnings("-O2 -fsyntax-only calls.c") == []
    shutil.copy(project / "calls.c", project / "conftest.c")
    assert warnings("-O2 -c conftest.c") == []


SOURCES = {
    "leaf.c": '#include "leaf.h"\nint leaf(int x) { return x * FACTOR + 1; }\n',
    "leaf.h": "#pragma once\n#ifndef FACTOR\n#define FACTOR 3\n#endif\n",
    "other.c": "int other(int x) { return x ^ 5; }\n",
    "warns.c": "int warns(int x) { int unused = 1; if (x = 2) return 1; }\n",
    "wrong.c": "int wrong(int x) { return y; }\n",
    "plus.cpp": "template <class T> T more(T x) { return x + 1; }\ntemplate int more<int>(int);\n",
    "assembly.s": ".globl here\nhere:\n  nop\n",
    "upper.S": "#define NAME there\n.globl NAME\nNAME:\n  nop\n",
    "once.i": '# 1 "once.c"\nint once(int x) { return x - 1; }\n',
    "with space.c": "int spaced(void) { return 1; }\n",
    "answers.rsp": '-Oz -c leaf.c -DFACTOR=4 -o "with answers.o"\n',
    "more.rsp": "@answers.rsp -g\n",
    "note.txt": "no source\n",
}

INVOCATIONS = r"""
-O0 -c leaf.c -o out.o
-Oz -Xclang -O2 -c leaf.c -o out.o
-Oz -gsplit-dwarf -g -c leaf.c -o out.o
-Oz -MD -MF deps/leaf.d -MT target -c leaf.c -o out.o
-E leaf.c
-S -Oz leaf.c -o -
-Oz -Wall -fcolor-diagnostics -c warns.c -o out.o
-Oz -c wrong.c -o out.o
-Oz -c leaf.c -o nowhere/out.o
-Oz -MD -c leaf.c --output=out.o
-Oz -c leaf.c -o /dev/null
-Oz -c leaf.c -o leaf.c
-Oz -c -ccc-print-phases leaf.c
-Oz -c leaf.c other.c
@more.rsp
@nowhere.rsp
-Oz -x c -c - -o out.o
-Oz -c assembly.s -o out.o
-Oz -c upper.S -o out.o
-Oz -flto=thin -c leaf.c -o out.o
-Oz --target=aarch64-linux-gnu -c leaf.c -o out.o
-### -Oz -c leaf.c
-o
-Oz -c with\ space.c
g++ -Oz -c plus.cpp leaf.c
-Oz -c note.txt
-Oz -c leaf.c --unknown-option
-Oz -save-temps=obj -c leaf.c -o deps/out.o
-Oz -c once.i -o out.o
""".strip().splitlines()


def outcome(command: list[str], folder: Path) -> tuple[int, bytes, bytes, dict[str, bytes]]:
    """Run a command in a fresh folder of the sources; return exit status, standard output, standard error and files."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "deps").mkdir(parents=True)
    for name, text in SOURCES.items():
        (folder / name).write_text(text)
    # Optimisation records and debug information must not depend on the time.
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0"}
    source = b"int piped(void) { return 7; }\n"
    result = subprocess.run(command, cwd=folder, env=environment, input=source, capture_output=True)
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    # The names of temporary objects have a random part.
    stderr = re.sub(rb"mlgo-clang: warning: .*, the first of this build,.*\n", b"", result.stderr)
    return result.returncode, result.stdout, re.sub(rb"-[0-9a-f]{6}(?=\.o)", b"-", stderr), files


@pytest.mark.parametrize("invocation", INVOCATIONS)
def test_it_does_as_clang_does(invocation: str, clang: dict[str, list[str]], tmp_path: Path) -> None:
    words = shlex.split(invocation)
    mode = words.pop(0) if words[0] in DRIVERS else "gcc"
    folder = tmp_path / "sources"
    expected = outcome([*clang[mode], *words], folder)
    for policy in ("default", "smallest"):
        actual = outcome([str(DRIVERS[mode]), f"--mlgo-policy={policy}", *words], folder)
        assert actual[:3] == expected[:3], policy
        assert actual[3].keys() == expected[3].keys(), policy
        assert [name for name, data in actual[3].items() if data != expected[3][name]] == [], policy


def test_its_version_is_that_of_clang(clang: dict[str, list[str]], tmp_path: Path) -> None:
    expected = outcome([*clang["gcc"], "--version"], tmp_path)
    more = outcome([str(DRIVERS["gcc"]), "--mlgo-policy=never", "--version"], tmp_path)
    assert more[1] == expected[1] + b"mlgo-clang inlining policy: never\n"
    front_end = outcome([str(DRIVERS["gcc"]), "-cc1", "-version"], tmp_path)
    assert front_end == outcome([*clang["gcc"][:2], "-cc1", "-version"], tmp_path)
