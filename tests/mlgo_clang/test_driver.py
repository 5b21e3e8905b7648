"""Command lines of the driver, and what it starts for them."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_clang.command_lines import cc1_commands, level_of, read_commands, shown_text, target_of
from mlgo_clang.invocation import driven, is_probe, read_invocation, resolve
from mlgo_clang.other_machines import library_headers, library_target, link_command
from mlgo_gym.corpus.driver import cc1_line
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import write_files, write_program
from tests.mlgo_clang.conftest import DRIVERS, SEVERAL, Run, counted, facts_of_all
from tests.ways_to_answer import cc1_flags


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
    machine = ["-march=armv8-a", "-mabi=aapcs", "-mcpu=x", "-mtune=x", "--target=aarch64-linux-musl"]
    assert link_command("zig", "g++", "aarch64-linux-musl", [*machine, "-Oz", "a.o", "-lm"])[1:] == (
        ["c++", "-target", "aarch64-linux-musl", "-fno-sanitize=undefined", "-Oz", "-Xclang", "-Oz", "a.o", "-lm"]
    )


def test_a_target_in_a_file_is_that_of_each_use(run: Run, project: Path) -> None:
    """Of compiles with and without a policy, of assembly, of the preprocessor, and of the headers that these read."""
    target = "--target=aarch64-linux-musl"
    (project / "hello.c").write_text("#include <stdio.h>\nint hello(void) { return puts(__VERSION__); }\n")
    (project / "target.rsp").write_text(f"'{target}'\n")
    (project / "target.cfg").write_text(f"# The target\n{target[:8]}\\\n{target[8:]}\n")
    (project / "nested.cfg").write_text("@target.cfg\n")
    uses = [
        (policy, use)
        for policy, *uses in (("never", "-Oz -c"), ("default", "-Oz -c", "-Oz -S", "-E", "-E -dM"))
        for use in uses
    ]

    def made(*words: str, **variables: str) -> list[bytes]:
        contents = []
        for policy, use in uses:
            result = run(f"--mlgo-policy={policy}", *words, *use.split(), "hello.c", "-o", "made", **variables)
            assert result.returncode == 0, result.stderr
            contents.append((project / "made").read_bytes())
        return contents

    expected = made(target)
    assert expected[0][18] == 183  # the machine in the header of ELF
    for words in (["@target.rsp"], ["--config=./target.cfg"], ["--config", "./nested.cfg"]):
        assert made(*words) == expected, words
    assert made(CCC_OVERRIDE_OPTIONS=f"#+{target}") == expected


WORDS = ['a "quote"', "a $dollar", "a back\\slash", "\\$", '\\"', "two\nlines", "", "-cc1", "é", " \t"]


def test_every_caller_reads_the_given_words(toolchain: Toolchain, clang: dict[str, list[str]], tmp_path: Path) -> None:
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
    driver = write_program(tmp_path / "clang", "echo ' \"a\"' >&2\nexec sleep 60")
    assert shown_text([str(driver)], seconds=0.05) == ""
    assert shown_text(["/bin/false"]) == ""


@pytest.mark.parametrize(
    ("words", "level"),
    [
        ("@flags.rsp", "s"),
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
    line, shown = resolve(clang["gcc"], arguments)
    invocation = read_invocation(line)
    if shown is not None or not invocation.is_clear:
        invocation = driven(invocation, shown_text(clang["gcc"], arguments) if shown is None else shown)
    assert (invocation.reason or invocation.level, invocation.source) == (level, "calls.c")


ORDINARY = (
    "-fdebug-compilation-dir . -mthread-model posix -meabi gnu -object-file-name x --std c11 --stdlib libc++ -rpath x",
    "--imacros x.h -Xopenmp-target -O2 -Xopenmp-target=x86_64 -O2 -ivfsoverlay x.yaml --encoding UTF-8",
    "-ftrapv-handler x -Xarch_x86_64 -Os -Xoffload-linker x -fnew-alignment 8 --prefix . -u x -working-directory .",
    "--rtlib compiler-rt --include x.h -Xclang -disable-O0-optnone -Wp,-DX,-Os --optimize=2 -ObjC -dumpdir x -O1",
    *("-O2 -Os", "-O", "-Og", "-O4 -DX=-Oz", "-Ofast", "-O2 -Xclang -Os", "-Xclang=-Os -O2", "-O2 -Xarch_host -Os"),
    "-O2 -Xpreprocessor -Os",
)
OTHER = """
    -no-integrated-as -via-file-asm --dependencies --preprocess -mcpu=help -ccc-print-phases -emit-llvm -xcuda
    --autocomplete=-f -fmodule-header -print-search-dirs -E -S -M -fsyntax-only -save-temps -flto -xassembler
"""


def test_options_mean_the_same(clang: dict[str, list[str]], project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    for name in ("x.h", "x.yaml"):
        (project / name).write_text("{}\n")
    for words in ORDINARY:
        expected = meaning_by_the_driver(clang["gcc"], words.split())
        assert meaning(clang["gcc"], words.split()) == expected is not None, words
    for word in OTHER.split():
        assert meaning(clang["gcc"], [word]) is meaning_by_the_driver(clang["gcc"], [word]) is None, word


def test_flags_of_variables_files_and_scripts_are_found(
    run: Run, clang: dict[str, list[str]], project: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLGO_POLICY", "never")
    write_program(project / "clang", f'exec {shlex.join(clang["gcc"])} "$@" -Oz')
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
        for path in own_cache.rglob("*.warned"):
            path.unlink()
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
    assert warnings("-O2 -c calls.c", MLGO_POLICY="never", MLGO_CACHE="/dev/null/cache") == [start + level] * 3
    (lto,) = warnings("-Oz -flto -c calls.c -o calls.bc")
    assert lto.startswith(start + b"-flto requests other work; before the link it would make programs larger; build")
    assert warnings("-O2 -fsyntax-only calls.c") == []
    shutil.copy(project / "calls.c", project / "conftest.c")
    assert warnings("-O2 -c conftest.c") == []


def test_feature_tests_of_a_build_are_told_by_the_name_of_the_source_or_a_folder() -> None:
    for name in ("conftest", "_configtest", "CMakeCCompilerABI", "CMakeCXXCompilerABI", "sanitycheckc", "ztest9"):
        assert is_probe(f"build/{name}.c", "/project")
    for folder in ("CMakeFiles/CMakeTmp", "x/CompilerIdC", "meson-private/tmp1", ".sconf_temp"):
        assert is_probe(f"build/{folder}/t.c", "/project")
        assert is_probe("t.c", f"/project/{folder}")
    assert not any(is_probe(f"src/{name}.c", "/project/CMakeFiles") for name in ("test", "a_conftest"))


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
    "more.rsp": "@answers.rsp -g -MD\n",
    "note.txt": "no source\n",
    "quoted.rsp": r"""-Oz -c leaf.c -DX='a\'b' "-DY=a\\\"b" -o "a\b.o" """,
    "layout.cpp": "struct A { virtual int f(); int x; }; int A::f() { return sizeof(A); }\n",
}

INVOCATIONS = r"""
-O0 -c leaf.c -o out.o
-Oz -Xclang -O2 -c leaf.c -o out.o
-Oz -gsplit-dwarf -g -c leaf.c -o out.o
-Oz -MD -MF deps/leaf.d -MT target -c leaf.c -o out.o
-E leaf.c
-S -Oz leaf.c -o -
-Oz -Wall -fcolor-diagnostics -c warns.c -o out.o
-Oz -Wall --serialize-diagnostics deps/warns.dia -c warns.c -o out.o
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
g++ -Oz -Wall -L. -MD -MF deps/plus.d -MT target -c plus.cpp -oout.o
g++ -Oz -MMD -MP -c plus.cpp -o "deps/a b\$.o"
g++ -Oz -MD -c plus.cpp -o .o
g++ -Oz -fstack-usage -c plus.cpp -o deps/out.o
-Oz -c note.txt
-Oz -c leaf.c --unknown-option
-Oz -save-temps=obj -c leaf.c -o deps/out.o
-Oz -Wp,-MD,deps/leaf.d,-MT,target -c leaf.c -o out.o
-Oz -c once.i -o out.o
@quoted.rsp
-Oz -c leaf.c -o out.o -MD -MF -
-Oz -c leaf.c -o out.o -Xclang -ast-list
-Oz -c layout.cpp -o out.o -Xclang -fdump-record-layouts
-Oz -c layout.cpp -o out.o -Xclang -fdump-vtable-layouts
-Oz -c leaf.c -o out.o -print-search-dirs
-Oz -c leaf.c -o out.o -Xclang -oother.o
-Oz -c leaf.c -o out.o -Xclang -fembed-offload-object=leaf.h
-Oz -c leaf.c -o out.o -Xclang -mthread-model -Xclang single
""".strip().splitlines()


def meaning(clang: list[str], words: list[str]) -> tuple[str, str, str] | None:
    """Return source, object and level of an ordinary compile with some words, as the wrapper reads them."""
    arguments = ["-Oz", "-c", *words, "calls.c", "-o", "out.o"]
    line, shown = resolve(clang, arguments)
    invocation = read_invocation(line)
    if not invocation.reason and (shown is not None or not invocation.is_clear):
        invocation = driven(invocation, shown_text(clang, arguments) if shown is None else shown)
    return None if invocation.reason else (invocation.source, invocation.output, invocation.level)


def meaning_by_the_driver(clang: list[str], words: list[str]) -> tuple[str, str, str] | None:
    """Return the same of the one command that clang's driver would run; None for another number or for other work."""
    commands = read_commands(shown_text([*clang, "-Oz", "-c", *words, "calls.c", "-o", "out.o"]))
    line = commands[0] if len(commands) == 1 else []
    if "-emit-obj" not in line:
        return None
    levels = [level_of(word) for word in line if word.startswith("-O")]
    return line[-1], line[line.index("-o") + 1], levels[-1]


def outcome(command: list[str], folder: Path) -> tuple[int, bytes, bytes, dict[str, bytes]]:
    """Run a command in a fresh folder of the sources; return exit status, standard output, standard error and files."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "deps").mkdir(parents=True)
    write_files(folder, SOURCES)
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
    facts_of_all(tmp_path / "facts", "_Z6othersi")
    facts = [f"--mlgo-link-facts={tmp_path / 'facts'}"]
    for policy, options in (("default", []), ("default", facts), (SEVERAL, [f"--mlgo-recipes={tmp_path / 'recipes'}"])):
        actual = outcome([str(DRIVERS[mode]), f"--mlgo-policy={policy}", *options, *words], folder)
        assert actual[:3] == expected[:3], policy
        assert actual[3].keys() == expected[3].keys(), policy
        assert [name for name, data in actual[3].items() if data != expected[3][name]] == [], policy


def test_its_version_is_that_of_clang(clang: dict[str, list[str]], tmp_path: Path) -> None:
    expected = outcome([*clang["gcc"], "--version"], tmp_path)
    more = outcome([str(DRIVERS["gcc"]), "--mlgo-policy=never", "--version"], tmp_path)
    assert more[1] == expected[1] + b"mlgo-clang inlining policy: never\n"
    # By the digest, caches of objects tell facts apart.
    facts, line = tmp_path / "facts", b"mlgo-clang link facts, internal linkage %s: %s\n"
    facts.write_text("facts")
    digest = b"facts sha256:" + hashlib.sha256(b"facts").hexdigest().encode()
    for path, internal, shown in ((facts, b"on", digest), (facts, b"off", digest), (tmp_path, b"on", bytes(tmp_path))):
        words = [f"--mlgo-link-facts={path}", f"--mlgo-internal={internal.decode()}", "--version"]
        assert outcome([str(DRIVERS["gcc"]), *words], tmp_path / "sources")[1].endswith(line % (internal, shown))
    front_end = outcome([str(DRIVERS["gcc"]), "-cc1", "-version"], tmp_path)
    assert front_end == outcome([*clang["gcc"][:2], "-cc1", "-version"], tmp_path)


@pytest.mark.parametrize(
    "variable", ["CC_PRINT_OPTIONS", "CC_PRINT_PROC_STAT", "CC_LOG_DIAGNOSTICS", "CC_PRINT_HEADERS"]
)
def test_variables_by_which_clang_prints_print_once(variable: str, run: Run, project: Path) -> None:
    (project / "calls.c").write_text("#include <stddef.h>\nint f(int n) { int unused; return n; }\n")
    lines = []
    for policy in ("default", "last-call"):
        result = run(
            f"--mlgo-policy={policy}", "-Wall", "-Oz", "-c", "calls.c", **{variable: "1", f"{variable}_FILE": "printed"}
        )
        lines.append((result.returncode, result.stderr, len((project / "printed").read_text().splitlines())))
        (project / "printed").unlink()
    assert lines[0] == lines[1]
    assert lines[0][2] > 0


STREAMS = {
    "-include /dev/stdin": 'cat extra.h | "$0" "$@"',
    "-include/dev/fd/3": '"$0" "$@" 3<<EOF\n#define FULL 1\nEOF',
    "-imacros fifo": 'cat extra.h > fifo & exec "$0" "$@"',
    "-Xclang -include -Xclang fifo": 'cat extra.h > fifo & exec "$0" "$@"',
    "-Wp,-include,fifo": 'cat extra.h > fifo & exec "$0" "$@"',
    "@fifo": 'echo "-DFULL=1" > fifo & exec "$0" "$@"',
    "@outer.rsp": 'cat extra.h > fifo & exec "$0" "$@"',
    "-fmodules -fmodule-map-file=fifo -DFULL=1": 'echo "" > fifo & exec "$0" "$@"',
    "-MD -MF fifo -DFULL=1": 'cat fifo > /dev/null & exec "$0" "$@"',
}


@pytest.mark.parametrize("words", STREAMS)
def test_a_file_that_can_be_read_once_is_read_once(words: str, run: Run, project: Path) -> None:
    (project / "extra.h").write_text("#define FULL 1\n")
    (project / "outer.rsp").write_text("-DX -include fifo")
    os.mkfifo(project / "fifo")
    with (project / "calls.c").open("a") as source:
        source.write("#ifdef FULL\nint full(int n) { return twice(n); }\n#endif\n")
    assert run("--mlgo-policy=default", "-DFULL=1", "-Oz", "-c", "calls.c").returncode == 0
    expected = (project / "calls.o").read_bytes()
    shell = ("timeout", "20", "sh", "-c", STREAMS[words])
    result = run(*words.split(), "-Oz", "-c", "calls.c", before=shell, MLGO_POLICY=SEVERAL, MLGO_RECIPES="recipes")
    assert result.returncode == 0, result.stderr
    assert (project / "calls.o").read_bytes() == expected


def test_a_pipe_that_a_source_includes_is_never_read_twice(run: Run, project: Path) -> None:
    """The object is that of the first reading, or there is an error."""
    source = project / "calls.c"
    source.write_text(f'#include "fifo"\n{source.read_text()}\n#ifdef FULL\nint full(int n) {{ return n; }}\n#endif\n')
    os.mkfifo(project / "fifo")
    words = ("-Oz", "-MD", "-MF", "calls.d", "-c", "calls.c")

    def compiled(policy: str) -> tuple[int, str, bool]:
        shell = ("timeout", "20", "sh", "-c", 'echo "#define FULL" > fifo & exec "$0" "$@"')
        result = run(policy, *words, before=shell)
        full = b"\0full\0" in (project / "calls.o").read_bytes()
        (project / "calls.o").unlink()
        return result.returncode, result.stderr.decode(), full

    assert compiled("--mlgo-policy=never") == compiled("--mlgo-policy=last-call") == (0, "", True)
    message = (
        "mlgo-clang: error: calls.c: expected files that can be read twice, got ./fifo; write it to a regular file"
    )
    assert compiled("--mlgo-policy=never,always") == (1, f"{message}\n", True)


def test_inputs_of_every_language_and_of_llvm_get_decisions(run: Run, project: Path, always: str) -> None:
    front = ("-Xclang", "-disable-llvm-passes", "-emit-llvm", "calls.c")
    assert run("--mlgo-policy=default", "-Oz", *front, "-S").returncode == 0
    assert run("--mlgo-policy=default", "-Oz", *front, "-c").returncode == 0
    shutil.copy(project / "calls.c", project / "calls.m")
    shutil.copy(project / "calls.c", project / "calls.txt")
    for policy in ("never", always):
        sizes = []
        for words in ("calls.c", "calls.ll", "calls.bc", "calls.m", "-x objective-c calls.txt", "-x ir calls.bc"):
            result = run(f"--mlgo-policy={policy}", "--mlgo-strict", "-Oz", "-c", *words.split(), "-o", "out.o")
            assert (result.returncode, result.stderr) == (0, b""), words
            sizes.append(object_sizes((project / "out.o").read_bytes()).text)
        assert len({*sizes}) == 1, policy


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-c calls.c other.c", "it has 2 inputs; compile each source with a command of its own"),
        ("-c -x cuda calls.c", "the language is cuda; a policy decides in C, C++, Objective-C and LLVM IR"),
        ("-c calls.c -include fifo", "fifo can be used only once; write it to a regular file"),
        ("-c calls.c -no-integrated-as", "-no-integrated-as requests other work; build with the assembler of clang"),
        ("calls.c -o program", "it does not compile to an object; compile with -c, and link the object"),
    ],
)
def test_strict_refuses_a_source_that_no_policy_decides(words: str, message: str, run: Run, project: Path) -> None:
    (project / "other.c").touch()
    os.mkfifo(project / "fifo")
    result = run("--mlgo-policy=never", "--mlgo-strict", "-Oz", *words.split())
    assert (result.returncode, result.stderr.count(b"\n")) == (1, 1)
    assert f"mlgo-clang: error: calls.c: no policy decides: {message}" in result.stderr.decode()
    assert not (project / "calls.o").exists()
