"""`mlgo-clang` does as the underlying clang for every command line: files, messages and exit status.

With `--mlgo-policy=default`, and with a policy that has nothing to decide in these sources.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mlgo_clang.conftest import DRIVERS

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
    return result.returncode, result.stdout, re.sub(rb"-[0-9a-f]{6}(?=\.o)", b"-", result.stderr), files


@pytest.mark.parametrize("invocation", INVOCATIONS)
def test_it_does_as_clang_does(invocation: str, clang: dict[str, list[str]], tmp_path: Path) -> None:
    words = shlex.split(invocation)
    mode = words.pop(0) if words[0] in DRIVERS else "gcc"
    folder = tmp_path / "sources"
    expected = outcome([*clang[mode], *words], folder)
    for policy in ("default", "never"):
        actual = outcome([str(DRIVERS[mode]), f"--mlgo-policy={policy}", *words], folder)
        assert actual[:3] == expected[:3], policy
        assert actual[3].keys() == expected[3].keys(), policy
        assert [name for name, data in actual[3].items() if data != expected[3][name]] == [], policy


def test_its_version_is_that_of_clang(clang: dict[str, list[str]], tmp_path: Path) -> None:
    expected = outcome([*clang["gcc"], "--version"], tmp_path)
    more = outcome([str(DRIVERS["gcc"]), "--mlgo-policy=never", "--version"], tmp_path)
    assert more[1] == expected[1] + b"mlgo-clang inlining policy: never\n"
