"""Build systems use the drivers as compilers: programs run, and their objects were compiled with the policy."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.mlgo_clang.conftest import DRIVERS, counted

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]  # the first link compiles libraries

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

CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(p C CXX)
add_library(calls STATIC calls.c)
add_executable(program main.cpp)
target_link_libraries(program calls)
"""


@pytest.fixture
def folder(tmp_path: Path, own_cache: Path) -> Path:
    """A folder with the sources of a program in C and C++."""
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def build(command: list[str], folder: Path, policy: str = "always", **variables: str) -> None:
    drivers = {"CC": str(DRIVERS["gcc"]), "CXX": str(DRIVERS["g++"]), "MLGO_POLICY": policy, "MLGO_STRICT": "1"}
    environment = {**os.environ, **drivers, **variables}
    result = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert result.returncode == 0, result.stdout.decode()[-3000:]


def needs(*tools: str) -> None:
    if missing := [tool for tool in tools if shutil.which(tool) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed")


def test_a_build_by_cmake_uses_the_policy(folder: Path) -> None:
    needs("cmake", "ninja")
    (folder / "CMakeLists.txt").write_text(CMAKE)
    build(["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=MinSizeRel"], folder)
    build(["cmake", "--build", "build"], folder)
    assert subprocess.run([folder / "build" / "program"], stdout=subprocess.PIPE, check=True).stdout == b"53\n"
    assert counted("compiled with a policy") >= 2
    assert counted("compiled by clang alone") == 0


def test_ccache_distinguishes_objects_of_different_policies(folder: Path, tmp_path: Path) -> None:
    needs("ccache")
    variables = {"CCACHE_DIR": str(tmp_path / "ccache"), "CCACHE_COMPILERCHECK": "%compiler% --version"}
    objects = []
    for policy, compiles in (("always", 1), ("always", 1), ("never", 2), ("never", 2), ("always", 2)):
        command = ["ccache", str(DRIVERS["gcc"]), "-Oz", "-c", "calls.c", "-o", "calls.o"]
        build(command, folder, policy, **variables)
        objects.append((folder / "calls.o").read_bytes())
        assert counted("compiled with a policy") == compiles
    assert objects[0] == objects[1] == objects[4] != objects[2] == objects[3]
