"""Build systems use the drivers as compilers: programs run, and their objects were compiled with the policy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mlgo_clang.conftest import DRIVERS, counted

SOURCES = {
    "calls.h": '#ifdef __cplusplus\nextern "C"\n#endif\nint first(int n);\n',
    "calls.c": '#include "calls.h"\n'
    "static int sum(int n) { int s = 0; for (int i = 0; i < n; ++i) s += i * n; return s; }\n"
    "static int twice(int n) { return sum(n) + sum(n + 1); }\n"
    "int first(int n) { return twice(n) + sum(n) + twice(2); }\n",
    "main.cpp": '#include "calls.h"\n#include <cstdio>\n'
    "template <class T> static T same(T x) { return x; }\n"
    'int main(int n, char **) { std::printf("%d\\n", same(first(n + 2)) + same(0)); }\n',
}
EXPECTED = b"53\n"

BUILD_FILES = {
    "cmake": {
        "CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\nproject(p C CXX)\n"
        "add_library(calls STATIC calls.c)\nadd_executable(program main.cpp)\ntarget_link_libraries(program calls)\n"
    },
    "autotools": {
        "configure.ac": "AC_INIT([p], [1])\nAM_INIT_AUTOMAKE([foreign])\nAC_PROG_CC\nAC_PROG_CXX\nLT_INIT\n"
        "AC_CONFIG_MACRO_DIRS([m4])\nAC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n",
        "Makefile.am": "ACLOCAL_AMFLAGS = -I m4\nlib_LTLIBRARIES = libcalls.la\nlibcalls_la_SOURCES = calls.c\n"
        "bin_PROGRAMS = program\nprogram_SOURCES = main.cpp\nprogram_LDADD = libcalls.la\n",
    },
    "meson": {
        "meson.build": "project('p', 'c', 'cpp')\ncalls = static_library('calls', 'calls.c')\n"
        "executable('program', 'main.cpp', link_with: calls)\n"
    },
    "make": {
        # The first C++ link by the bundled clang takes minutes, so the others link this way.
        "Makefile": "program: main.o calls.o\n\t$(CC) $^ -o $@\n",
    },
}

COMMANDS = {
    "make": ("make -j2 CFLAGS=-Os CXXFLAGS=-Os",),
    "cmake": (
        "cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=MinSizeRel",
        "cmake --build build",
        "cp build/program program",
    ),
    "autotools": (
        "autoreconf -fi",
        "./configure --disable-shared CFLAGS=-Os CXXFLAGS=-Os",
        "make -j2",
    ),
    "meson": (
        "meson setup build --buildtype=minsize",
        "ninja -C build",
        "cp build/program program",
    ),
}
TOOLS = {
    "make": ("make", "cc"),  # the machine's linker and C library
    "cmake": ("cmake", "ninja"),
    "autotools": ("autoreconf", "automake", "libtoolize", "make"),
    "meson": ("meson", "ninja"),
}


@pytest.fixture
def folder(tmp_path: Path, own_cache: Path) -> Path:
    """A folder with the sources of a program in C and C++."""
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def environment(**variables: str) -> dict[str, str]:
    return {
        **os.environ,
        "CC": str(DRIVERS["gcc"]),
        "CXX": str(DRIVERS["g++"]),
        "MLGO_POLICY": "always",
        "MLGO_STRICT": "1",
        **variables,
    }


def wanted(*tools: str) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "system", ["make", *(pytest.param(name, marks=pytest.mark.slow) for name in BUILD_FILES if name != "make")]
)
def test_a_build_uses_the_policy(folder: Path, system: str) -> None:
    wanted(*TOOLS[system])
    for name, text in BUILD_FILES[system].items():
        (folder / name).write_text(text)
    for command in COMMANDS[system]:
        result = subprocess.run(
            command.split(),
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        assert result.returncode == 0, result.stdout.decode()[-3000:]
    assert subprocess.run([folder / "program"], stdout=subprocess.PIPE, check=True).stdout == EXPECTED
    assert counted("compiled with a policy") >= 2
    assert counted("compiled by clang alone") == 0


@pytest.mark.slow
def test_an_extension_of_setuptools_uses_the_policy(folder: Path) -> None:
    (folder / "calls.c").write_text(
        SOURCES["calls.c"].replace('#include "calls.h"', "#include <Python.h>")
        + "static PyObject *run(PyObject *self, PyObject *n) { return PyLong_FromLong(first(PyLong_AsLong(n))); }\n"
        'static PyMethodDef methods[] = {{"first", run, METH_O, 0}, {0}};\n'
        'static PyModuleDef module = {PyModuleDef_HEAD_INIT, "calls", 0, -1, methods};\n'
        "PyMODINIT_FUNC PyInit_calls(void) { return PyModule_Create(&module); }\n"
    )
    (folder / "setup.py").write_text(
        "from setuptools import Extension, setup\nsetup(name='p', ext_modules=[Extension('calls', ['calls.c'])])\n"
    )
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    result = subprocess.run(command, cwd=folder, env=environment(CFLAGS="-Os"), capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()[-3000:]
    code = "import calls; print(calls.first(3))"
    found = subprocess.run([sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, check=True).stdout
    assert found == EXPECTED
    assert counted("compiled with a policy") == 1


def test_ccache_distinguishes_objects_of_different_policies(folder: Path, tmp_path: Path) -> None:
    wanted("ccache")
    variables = {"CCACHE_DIR": str(tmp_path / "ccache"), "CCACHE_COMPILERCHECK": "%compiler% --version"}
    objects = []
    for policy, compiles in (("always", 1), ("always", 1), ("never", 2), ("never", 2), ("always", 2)):
        command = ["ccache", str(DRIVERS["gcc"]), "-Oz", "-c", "calls.c", "-o", "calls.o"]
        subprocess.run(command, cwd=folder, env=environment(**variables, MLGO_POLICY=policy), check=True)
        objects.append((folder / "calls.o").read_bytes())
        assert counted("compiled with a policy") == compiles
    assert objects[0] == objects[1] == objects[4] != objects[2] == objects[3]
