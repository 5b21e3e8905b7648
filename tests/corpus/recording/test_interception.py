"""Compilers that a build calls by path run unchanged and are recorded; interrupted builds keep their records."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.corpus.folder import read_description
from mlgo_gym.corpus.recording.record import record_build
from mlgo_gym.errors import NothingCompiledError
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import write_files, write_program
from tests.corpus.conftest import record

OTHER_SIGNALS = [pytest.param(how, marks=pytest.mark.slow) for how in (signal.SIGINT, signal.SIGHUP)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with three small sources."""
    return write_files(tmp_path / "project", {f"{name}.c": f"int {name}(int x) {{ return x; }}\n" for name in "fgh"})


@pytest.fixture
def own_compiler(tmp_path: Path, toolchain: Toolchain) -> Path:
    """A compiler in a folder of its own, which logs each call."""
    text = f'echo called >> {tmp_path}/log\nexec {" ".join(toolchain.command)} "$@"'
    return write_program(tmp_path / "tools" / "bin" / "x86_64-own-linux-clang-22", text)


@pytest.mark.parametrize("intercept_paths", [True, False])
def test_a_compiler_by_its_path_is_run_once_and_recorded_or_counted(
    project: Path, own_compiler: Path, toolchain: Toolchain, intercept_paths: bool
) -> None:
    script = f"$CC -c g.c; {own_compiler} -c f.c; printf '.text\\n' > s.s; $CC -c s.s; env -i {own_compiler} -c h.c"
    script += "; touch -d 2001-01-01 h.o"  # a cache can restore the time of an object, too
    text = own_compiler.read_text().replace('"$@"', '--driver-mode=g++ -Wno-deprecated "$@"')
    script += f"; cp f.c j.c; {write_program(own_compiler.with_name('own-clang++'), text)} -std=c++20 -c j.c"
    build = record(project, script, toolchain, intercept_paths=intercept_paths)
    unseen = "an object of a cache or of a compiler that was not intercepted"
    assert build.status == 0
    assert (own_compiler.parents[2] / "log").read_text() == "called\n" * 3
    assert build.modules == (("f.o", "g.o", "j.o") if intercept_paths else ("g.o",))
    assert build.languages == ({"C": 2, "C++": 1} if intercept_paths else {"C": 1})
    paths = {str(own_compiler): 1, str(own_compiler.with_name("own-clang++")): 1}
    assert build.compiler_paths == (paths if intercept_paths else {})
    assert build.skipped == {"assembly": 1, unseen: 1 if intercept_paths else 3}


def test_every_way_to_start_a_program_is_intercepted(project: Path, own_compiler: Path, toolchain: Toolchain) -> None:
    calls = [
        "subprocess.run([path, '-c', name], check=True)",
        "subprocess.run([path, '-c', name], check=True, preexec_fn=lambda: None)",
        "os.waitpid(os.posix_spawn(path, [path, '-c', name], os.environ), 0)",
        "os.waitpid(os.posix_spawnp(path, [path, '-c', name], os.environ), 0)",
        "os.system(path + ' -c ' + name)",
        "os.execv(path, [path, '-c', name])",
        "os.environ.update(PATH=os.path.dirname(path)); os.execvp(os.path.basename(path), ['clang', '-c', name])",
        "libc.execl(path.encode(), b'clang', b'-c', name.encode(), None)",
        "libc.execlp(path.encode(), b'clang', b'-c', name.encode(), None)",
        "libc.execvp(path.encode(), (ctypes.c_char_p * 4)(b'clang', b'-c', name.encode(), None))",
        "libc.execv(path.encode(), (ctypes.c_char_p * 4)(b'clang', b'-c', name.encode(), None))",
    ]
    sources = {f"{number}.c": f"int f{number};\n" for number in range(len(calls))}
    program = (
        f"import ctypes, os, subprocess\nlibc = ctypes.CDLL(None)\npath = {str(own_compiler)!r}\n"
        f"for number, call in enumerate({calls!r}):\n"
        "    name = f'{number}.c'\n    child = os.fork()\n"
        "    if child == 0:\n        exec(call)\n        os._exit(0)\n    os.waitpid(child, 0)\n"
    )
    build = record(write_files(project, sources), [sys.executable, "-c", program], toolchain)
    assert sorted(build.modules) == sorted(name.replace(".c", ".o") for name in sources)


def test_scripts_and_front_ends_hide_no_compile(project: Path, own_compiler: Path, toolchain: Toolchain) -> None:
    write_program(project / "build-cc", f"$CC -c f.c && {own_compiler} -c g.c && echo token > /proc/self/fd/$1")
    read, write = os.pipe()
    os.set_inheritable(write, True)  # as make leaves its jobserver to a build
    calls = [f"{compiler} -cc1 -fsyntax-only h.c" for compiler in ("$CC", own_compiler)]
    build = record(project, "; ".join([f"./build-cc {write}", *calls]), toolchain)
    assert (build.status, build.modules, build.failures, dict(build.skipped)) == (0, ("f.o", "g.o"), (), {})
    os.close(write)
    assert os.read(read, 9) == b"token\n"
    os.close(read)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_compiles_by_gcc_that_clang_refuses_are_counted(project: Path, toolchain: Toolchain) -> None:
    gcc = shutil.which("gcc")
    assert gcc is not None
    (project / "nested.c").write_text("int n(int x) { int inner(int y) { return x + y; } return inner(1); }\n")
    recording = record(project, f"{gcc} -O2 -c f.c; {gcc} -c nested.c; $CC -c g.c", toolchain)
    assert recording.modules == ("f.o", "g.o")
    assert recording.compiler_paths == {gcc: 1}
    assert recording.skipped == {"a compile by gcc, which is no clang, that clang refuses": 1}
    assert recording.failures == ()


@pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is not installed")
def test_caches_are_bypassed_or_counted(project: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCACHE_DIR", str(project.parent / "cache"))
    cached = "unset CCACHE_DISABLE; ccache $CC -c f.c; $(command -v ccache) gcc -c g.c; ccache --version > version"
    for name in ("cold", "warm"):
        corpus = project.parent / name
        build = record_build(["sh", "-ec", cached], corpus, toolchain=toolchain, folder=project)
        assert (build.modules, dict(build.skipped)) == (("f.o", "g.o"), {})
    assert (project / "version").read_text().startswith("ccache version")
    program = shutil.which("ccache")
    with pytest.raises(NothingCompiledError, match="1 of an object of a cache or of a compiler that was not"):
        record(project, f"env -i {program} {' '.join(toolchain.command)} -c h.c", toolchain)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_a_statically_linked_compiler_is_recorded(project: Path, own_compiler: Path, toolchain: Toolchain) -> None:
    source = "int execv(const char *, char **); int main(int n, char **v) { return execv(*v = COMPILER, v); }\n"
    write_files(project, {"compiler.c": source})
    program = project.parent / "static" / "clang-22"
    program.parent.mkdir()
    build = ["gcc", "-static", f'-DCOMPILER="{own_compiler}"', str(project / "compiler.c"), "-o", str(program)]
    if subprocess.run(build, capture_output=True, check=False).returncode:
        pytest.skip("a static C library is not installed")
    recording = record(project, f"{program} -c f.c", toolchain)
    assert (recording.modules, recording.compiler_paths) == (("f.o",), {str(program): 1})
    assert (own_compiler.parents[2] / "log").read_text() == "called\n"


def interrupted(options: str, how: signal.Signals, project: Path, temporary: Path) -> tuple[int, str]:
    """Send a signal to the recording of a build that has compiled; return its exit status and its output."""
    temporary.mkdir(exist_ok=True)
    program = (
        "from pathlib import Path; from mlgo_gym.corpus.recording.record import record_build\n"
        "build = record_build(['sh', '-c', '$CC -c f.c; echo started; exec tail -f /dev/null'], "
        f"Path('../corpus'){options})\n"
        "print(build.status, build.modules)"
    )
    environment = {**os.environ, "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(how)
        rest = process.stdout.read()
        return process.wait(), rest


@pytest.mark.parametrize("how", [signal.SIGTERM, *OTHER_SIGNALS])
def test_an_interrupted_build_ends_by_its_signal_or_keeps_its_records(
    project: Path, how: signal.Signals, tmp_path: Path
) -> None:
    assert interrupted(", keep_interrupted=False", how, project, tmp_path / "temporary") == (-how.value, "")
    assert not (tmp_path / "corpus").exists()
    assert interrupted("", how, project, tmp_path / "temporary") == (0, f"{-how.value} ('f.o',)\n")
    assert read_description(tmp_path / "corpus").modules == ("f.o",)
    assert list((tmp_path / "temporary").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus", "project", "temporary"]
