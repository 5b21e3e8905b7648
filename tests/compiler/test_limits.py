"""Limits of compiles and of other programs: memory, CPU time, silence, folders."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_gym.compiler.limits import Limits, confinement_support, cpu_wait_seconds
from mlgo_gym.compiler.process import CompilerProcess, run_bounded
from mlgo_gym.compiler.session import Session
from mlgo_gym.errors import CompilerError, ToolchainError
from mlgo_gym.evaluation import evaluate
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import MakeBitcode, clang_program, copy_modules
from tests.traces import children, ends_within

HUGE = """
char huge[30UL << 30] = {1};
static int callee(int x) { return x * 3; }
int caller(int x) { return callee(x) + callee(x + 1); }
"""
"""A module with an object of 30 GB."""

LARGE = "long large[40L << 20] = {[0 ... (40L << 20) - 1] = 1};"
"""A source whose 320 MB clang holds in memory."""


def test_memory_beyond_the_limit_is_an_error_with_clangs_message(toolchain: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "large.c"
    source.write_text(LARGE)
    words = ["-cc1", "-triple", "x86_64-linux-musl", "-emit-obj", str(source)]
    session = Session([*toolchain.command, *words], limits=Limits(memory=0.24))
    with session, pytest.raises(CompilerError) as caught:
        session.finish(60)
    error = caught.value
    assert error.kind == "limit"
    assert error.message == "expected clang to need at most 0.24 GiB of memory, got more; raise memory_limit"
    assert "bad_alloc" in error.stderr or "out of memory" in error.stderr


@pytest.mark.parametrize(
    ("remedy", "stderr"),
    [
        ("memory_limit", "LLVM ERROR: out of memory\nAllocation failed\nPLEASE submit a bug report"),
        ("memory_limit", "libc++abi: terminating due to uncaught exception of type std::bad_alloc: std::bad_alloc"),
        ("memory_limit", "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc"),
        ("memory_limit", "memory allocation of 1048576 bytes failed"),
        ("memory_limit", "cc1plus: out of memory allocating 65536 bytes after a total of 1 bytes"),
        ("memory_limit", "/usr/bin/ld: final link failed: memory exhausted"),
        (
            "memory_limit",
            "error while loading shared libraries: libc.so.6: failed to map segment from shared object",
        ),
        ("memory_limit", 'Traceback (most recent call last):\n  File "a.py", line 1\nMemoryError'),
        ("memory_limit", "error: OutOfMemory"),
        ("memory_limit", "collect2: fatal error: ld terminated with signal 25 [File size limit exceeded]"),
        ("cpu_limit", "clang: error: unable to execute command: CPU time limit exceeded"),
        ("cpu_limit", "make: *** [Makefile:3: all] CPU time limit exceeded"),
        # Words of a source.
        (None, "a.cpp:3:9: error: use of undeclared identifier 'bad_alloc'\n    3 |   throw bad_alloc();"),
        (None, "a.cpp:1:2: error: Allocation failed\n    1 | #error Allocation failed"),
        (None, 'a.c:1:2: error: out of memory\n    1 | #error "x: out of memory"'),
        (None, "test 3 of 9: Allocation failed is handled\nFAILED: 1 test"),
        (None, "a.c:2:1: error: CPU time limit exceeded\n"),
        (None, '    4 | case SIGXCPU: return "File size limit exceeded";'),
        (None, "a.py:1: MemoryError is caught"),
    ],
)
def test_a_message_names_a_limit(remedy: str | None, stderr: str) -> None:
    exceeded = Limits(memory=1, cpu=1).exceeded(1, stderr)
    assert exceeded is None if remedy is None else exceeded is not None and exceeded[1].endswith(f"raise {remedy}")
    assert Limits(memory=1, cpu=1).exceeded(0, stderr) is None


def test_none_is_no_limit_and_a_lower_limit_is_kept() -> None:
    with open("/dev/null", "wb") as null:  # noqa: PTH123 - posix_spawn takes a descriptor
        output = null.fileno()
        process = CompilerProcess.start(["/bin/sleep", "60"], stdout=output, stderr=output, limits=Limits(None, None))
    try:
        assert resource.prlimit(process.pid, resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
        Limits(0.5, 10).apply(process.pid)
        Limits(8, 20).apply(process.pid)
        assert resource.prlimit(process.pid, resource.RLIMIT_AS) == (1 << 29, 1 << 29)
        assert resource.prlimit(process.pid, resource.RLIMIT_CPU) == (10, 15)
    finally:
        process.kill()
        process.abandon()


def test_modules_beyond_a_limit_fail_alone(make_bitcode: MakeBitcode, calls: Path, tmp_path: Path) -> None:
    (source := tmp_path / "huge.c").write_text(HUGE)
    program = clang_program(tmp_path / "clang", 'case "$*" in */endless.bc*) while :; do :; done;; esac')
    corpus = copy_modules(tmp_path / "corpus", {"calls": calls, "endless": calls, "huge": make_bitcode(source)})
    result = evaluate(
        "mlgo/Inline-v0",
        corpus=str(corpus),
        policies=["never"],
        env_kwargs={"clang": str(program), "compile_options": {"cpu_limit": 5, "memory_limit": 0.5}},
    )
    assert [episode.module for episode in result.episodes if episode.status == "done"] == ["calls"]
    errors = {failure.module: failure.error for failure in result.failures}
    assert {module: error and (error["kind"], error["message"]) for module, error in errors.items()} == {
        "endless": ("timeout", "expected clang to need at most 5 s of CPU time, got more; raise cpu_limit"),
        "huge": ("limit", "expected clang to write at most 0.5 GiB, got more; raise memory_limit"),
    }


ENDLESS = ("/bin/sh", "-c", "while :; do :; done")


@pytest.fixture
def busy() -> Iterator[None]:
    """Nine processes that compute on the one CPU of this test."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    # In sessions of their own, since the kernel may share a CPU among sessions.
    processes = [subprocess.Popen(ENDLESS, start_new_session=True) for _ in range(9)]
    yield
    for process in processes:
        process.kill()
    os.sched_setaffinity(0, allowed)
    for process in processes:
        process.wait()


@pytest.mark.usefixtures("nothing_is_left", "busy")
def test_grace_is_the_time_waited_since_the_last_call_and_at_most_the_timeout() -> None:
    with Session(ENDLESS) as starved:
        waits = [0.0]

        def starve() -> float:
            """Let it wait for a CPU, stop it, and return the seconds of this wait."""
            os.kill(starved.pid, signal.SIGCONT)
            until = time.monotonic() + 30
            while cpu_wait_seconds(starved.pid) < waits[-1] + 0.05:
                assert time.monotonic() < until
            os.kill(starved.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, starved.pid, os.WSTOPPED | os.WNOWAIT)
            waits.append(cpu_wait_seconds(starved.pid))
            return waits[-1] - waits[-2]

        assert starved.grace(11 * starve()) == 0
        waited = starve()
        assert starved.grace(2 * waited) == waited
        assert starved.grace(2 * waited) == 0
        waited = starve()
        assert starved.grace(waited / 2) == waited / 2
    assert cpu_wait_seconds(starved.pid) == 0


pytestmark = pytest.mark.usefixtures("nothing_is_left")


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code]


def test_output_and_exit_status_are_returned_also_of_a_program_that_closes_its_streams(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd()); print('no', file=sys.stderr); sys.exit(3)"
    answer = run_bounded(python(code), folder=tmp_path)
    assert (answer.returncode, answer.stdout, answer.stderr) == (3, f"{tmp_path}\n", "no\n")
    answer = run_bounded(["sh", "-c", "exec >&- 2>&-; sleep 0.05; exit 5"])
    assert (answer.returncode, answer.stdout) == (5, "")
    with pytest.raises(ToolchainError, match="cannot start '/nowhere'"):
        run_bounded(["/nowhere"])


@pytest.mark.skipif(not confinement_support()[0], reason=confinement_support()[1])
def test_it_writes_only_into_writable_folders(tmp_path: Path) -> None:
    (tmp_path / "allowed").mkdir()
    words = ["sh", "-c", 'echo x > "$1"', "sh"]
    allowed, other = (str(tmp_path / name) for name in ("allowed/file", "file"))
    assert run_bounded([*words, allowed], writable=(tmp_path / "allowed",)).returncode == 0
    assert "Permission denied" in run_bounded([*words, other], writable=(tmp_path / "allowed",)).stderr
    assert not Path(other).exists()
    assert run_bounded([*words, other], writable=None).returncode == 0


def test_a_program_beyond_a_limit_is_killed_with_a_message() -> None:
    before = children()
    with pytest.raises(ToolchainError, match=r"the test did not finish within 0\.2 s"):
        run_bounded(["sleep", "60"], timeout=0.2, name="the test")
    assert children() <= before
    with pytest.raises(ToolchainError, match="expected at most 64 MiB of output from clang"):
        run_bounded(["sh", "-c", "yes"])
    endless = run_bounded(["sh", "-c", "while :; do :; done"], limits=Limits(cpu=1))
    assert endless.stderr.splitlines()[0] == "expected clang to need at most 1 s of CPU time, got more; raise cpu_limit"
    large = "import sys\ntry: bytearray(1 << 40)\nexcept MemoryError: sys.exit('out of memory')"
    message = run_bounded(python(large), limits=Limits(memory=2)).stderr
    assert "at most 2 GiB of memory, got more; raise memory_limit" in message


def test_its_children_are_killed_and_not_waited_for(tmp_path: Path) -> None:
    assert ends_within(int(run_bounded(["sh", "-c", "sleep 1000 & echo $!"]).stdout), 10)
    pid = tmp_path / "pid"
    with pytest.raises(ToolchainError, match="did not finish within"):
        run_bounded(["sh", "-c", f"sleep 1000 & echo $! > {pid}; wait"], timeout=0.5, writable=None)
    assert ends_within(int(pid.read_text()), 10)


LIMITED = 'until [ "$(ulimit -v)" != unlimited ]; do :; done'
"""Commands that a program runs until its limits hold, which are set after its guard."""


def test_it_is_killed_with_its_host(tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    words = ["sh", "-c", f"{LIMITED}; sleep 1000 & echo $! > {started}; wait"]
    run = f"run_bounded({words}, writable=None)"
    code = f"from mlgo_gym.compiler.process import run_bounded; {run}"
    with subprocess.Popen([sys.executable, "-c", code]) as host:
        child = int(started.read_text())
        host.kill()
    assert ends_within(child, 10)
