"""Compilers that a build calls by path run unchanged and are recorded."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from mlgo_gym.corpus.recording.path_interception import is_gcc
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.corpus.recording.recorder import Recording
from mlgo_gym.llvm.toolchain import Toolchain

OWN = '#!/bin/sh\necho called >> {log}\nexec {command} "$@"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with three small sources."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in "fgh":
        (folder / f"{name}.c").write_text(f"int {name}(int x) {{ return x + {ord(name)}; }}\n")
    return folder


@pytest.fixture
def own_compiler(tmp_path: Path, toolchain: Toolchain) -> Path:
    """A compiler in a folder of its own, which logs each call."""
    program = tmp_path / "tools" / "bin" / "x86_64-own-linux-clang-22"
    program.parent.mkdir(parents=True)
    program.write_text(OWN.format(log=tmp_path / "log", command=" ".join(toolchain.command)))
    program.chmod(0o755)
    return program


def record(project: Path, command: list[str], toolchain: Toolchain, *, intercept_paths: bool = True) -> Recording:
    """Record a build into `project/../corpus`."""
    return record_build(
        command, project.parent / "corpus", toolchain=toolchain, folder=project, intercept_paths=intercept_paths
    )


def test_a_compiler_by_its_path_is_run_once_and_recorded(
    project: Path, own_compiler: Path, toolchain: Toolchain
) -> None:
    build = record(project, ["sh", "-ec", f"{own_compiler} -c f.c; $CC -c g.c"], toolchain)
    assert build.status == 0
    assert build.modules == ("f.o", "g.o")
    assert build.compiler_paths == {str(own_compiler): 1}
    assert (project / "f.o").is_file()
    assert (own_compiler.parent.parent.parent / "log").read_text() == "called\n"


@pytest.mark.parametrize(
    "call",
    [
        "subprocess.run([path, '-c', 'f.c'], check=True)",
        "subprocess.run([path, '-c', 'f.c'], check=True, preexec_fn=lambda: None)",
        "os.waitpid(os.posix_spawn(path, [path, '-c', 'f.c'], os.environ), 0)",
        "os.waitpid(os.posix_spawnp(path, [path, '-c', 'f.c'], os.environ), 0)",
        "os.execv(path, [path, '-c', 'f.c'])",
        "os.system(path + ' -c f.c')",
        "os.environ.update(PATH=os.path.dirname(path)); os.execvp(os.path.basename(path), ['clang', '-c', 'f.c'])",
        "libc.execl(path.encode(), b'clang', b'-c', b'f.c', None)",
        "libc.execlp(path.encode(), b'clang', b'-c', b'f.c', None)",
        "arguments = (ctypes.c_char_p * 4)(b'clang', b'-c', b'f.c', None); libc.execvp(path.encode(), arguments)",
        "arguments = (ctypes.c_char_p * 4)(b'clang', b'-c', b'f.c', None); libc.execv(path.encode(), arguments)",
    ],
)
def test_every_way_to_start_a_program_is_intercepted(
    project: Path, own_compiler: Path, toolchain: Toolchain, call: str
) -> None:
    program = f"import ctypes, os, subprocess; libc = ctypes.CDLL(None); path = {str(own_compiler)!r}; {call}"
    build = record(project, [sys.executable, "-c", program], toolchain)
    assert build.status == 0
    assert build.modules == ("f.o",)


def test_objects_of_compiles_that_were_not_intercepted_are_counted(
    project: Path, own_compiler: Path, toolchain: Toolchain
) -> None:
    script = f"$CC -c g.c; printf '.text\\n' > s.s; $CC -c s.s; env -i {own_compiler} -c f.c"
    recording = record(project, ["sh", "-ec", script], toolchain)
    assert recording.modules == ("g.o",)
    assert recording.skipped == {"assembly": 1, "an object of a compile that was not intercepted": 1}


def test_without_the_library_only_shims_record(project: Path, own_compiler: Path, toolchain: Toolchain) -> None:
    recording = record(project, ["sh", "-ec", f"$CC -c g.c; {own_compiler} -c f.c"], toolchain, intercept_paths=False)
    assert recording.modules == ("g.o",)
    assert recording.skipped == {"an object of a compile that was not intercepted": 1}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_compiles_by_gcc_that_clang_refuses_are_counted(project: Path, toolchain: Toolchain) -> None:
    gcc = shutil.which("gcc")
    assert gcc is not None
    assert is_gcc(gcc)
    (project / "nested.c").write_text("int n(int x) { int inner(int y) { return x + y; } return inner(1); }\n")
    script = f"{gcc} -O2 -c f.c; {gcc} -c nested.c; $CC -c g.c"
    recording = record(project, ["sh", "-ec", script], toolchain)
    assert recording.modules == ("f.o", "g.o")
    assert recording.compiler_paths == {gcc: 1}
    assert recording.skipped == {"a compile by gcc, which is no clang, that clang refuses": 1}
    assert recording.failures == ()


def test_precompiled_headers_and_modules_are_counted(project: Path, toolchain: Toolchain) -> None:
    (project / "all.h").write_text("int f(int);\n")
    (project / "m.cppm").write_text("export module m; export int m() { return 1; }\n")
    (project / "u.cpp").write_text("import m; int u() { return m(); }\n")
    script = (
        "$CC -c f.c; $CC -x c-header all.h -o all.h.pch; $CC all.h -o other.pch; $CC -E all.h > /dev/null; "
        "$CXX -std=c++20 --precompile m.cppm -o m.pcm; $CXX -std=c++20 -fmodule-file=m=m.pcm -c u.cpp"
    )
    recording = record(project, ["sh", "-ec", script], toolchain)
    assert recording.skipped["a precompiled header"] == 2
    assert recording.skipped["a C++ module"] == 1
    assert len(recording.modules) + recording.skipped.get("a compile with precompiled modules", 0) == 2
    assert recording.failures == ()
