"""Processes of compilers: how they start, end, and end with their host; scratch folders of hosts that were killed."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlgo_clang.files import scratch_parent
from mlgo_gym.compiler.connection import make_scratch
from mlgo_gym.compiler.limits import CPU_SECONDS, raise_if_descriptor_limit
from mlgo_gym.compiler.process import GUARD_DESCRIPTOR
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.advisors import INLINING
from tests.conftest import limited
from tests.traces import alive, ends_within, traces

pytestmark = pytest.mark.usefixtures("nothing_is_left")

LONG = 30.0


@pytest.mark.parametrize("program", ["/no/such/clang", "/etc/passwd", "/"])
def test_a_program_that_cannot_be_started_leaves_nothing_behind(program: str) -> None:
    before = traces()
    with pytest.raises(CompilerError, match=f"cannot start '{program}'") as caught:
        Session([program, "-cc1"], [INLINING])
    assert caught.value.kind == "start"
    assert traces() <= before


def test_closing_at_any_point_leaves_nothing(compile_calls: Compilation) -> None:
    before = traces()
    for waits in (0, 1):
        session = Session(compile_calls.command, [INLINING])
        for _ in range(waits):
            assert session.wait(LONG) is not None
        pid = session.pid
        session.close()
        assert not alive(pid)
        assert traces() <= before
    assert Session(compile_calls.command, [INLINING]).wait(LONG) is not None
    assert traces() <= before  # it is collected
    # Closing again closes nothing else.
    held = os.open(os.devnull, os.O_RDONLY)
    session.close()
    os.fstat(held)
    os.close(held)


def inheritable(descriptor: int) -> bool:
    try:
        return descriptor > GUARD_DESCRIPTOR and os.get_inheritable(descriptor)
    except OSError:
        return False


def test_a_compiler_has_its_streams_and_inherits_nothing_else() -> None:
    # Descriptors that this program inherited are passed on; its own are not.
    inherited = {int(link.name) for link in Path("/proc/self/fd").iterdir() if inheritable(int(link.name))}
    with Session(["/bin/sh", "-c", "ls /proc/$$/fd; wc -c; echo err >&2"]) as session:
        compiled = session.finish(LONG)
    *descriptors, standard_input = compiled.object_bytes.split()
    assert (standard_input, compiled.stderr) == (b"0", "err\n")
    assert {int(number) for number in descriptors} - inherited == {0, 1, 2, GUARD_DESCRIPTOR} - inherited


def test_a_compiler_leads_a_process_group_with_default_signals_and_limits() -> None:
    with Session(["/bin/sleep", "60"]) as session:
        status = Path(f"/proc/{session.pid}/status").read_text()
        group, cpu = os.getpgid(session.pid), resource.prlimit(session.pid, resource.RLIMIT_CPU)
        assert group == session.pid
    ignored, blocked = (int(status.split(f"{field}:")[1].split()[0], 16) for field in ("SigIgn", "SigBlk"))
    assert ignored & 1 << (signal.SIGPIPE - 1) == 0
    assert blocked == 0
    assert cpu == (CPU_SECONDS, CPU_SECONDS + 5)


def test_other_code_may_reap_a_compiler() -> None:
    with Session(["/bin/true"]) as session:
        os.waitpid(session.pid, 0)
        with pytest.raises(CompilerError, match="exit status 255"):
            session.finish(LONG)


def test_a_compile_without_free_descriptors_names_the_limit_and_leaves_nothing(compile_calls: Compilation) -> None:
    # Above the highest descriptor that is duplicated to a number.
    spare = [os.open(os.devnull, os.O_RDONLY) for _ in range(80)]
    started = []
    for limit in range(spare[-1] + 1, spare[-1] + 21):
        with limited(resource.RLIMIT_NOFILE, limit):
            try:
                Session(compile_calls.command, (INLINING,)).close()
                started.append(True)
            except MlgoError as error:
                message = str(error)
                started.append(f"none of the {limit} that" not in message or "ulimit -n" not in message)
    for descriptor in spare:
        os.close(descriptor)
    assert started == sorted(started)
    assert set(started) == {False, True}
    with pytest.raises(MlgoError, match="got none on this machine"):
        raise_if_descriptor_limit(OSError(errno.ENFILE, "made up"))
    raise_if_descriptor_limit(OSError(errno.EACCES, "made up"))


HOST = """
import fcntl, os, signal, sys
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.compiler.session import Session

def start(decisions=0):
    session = Session(sys.argv[1:], [INLINING])
    for number in range(decisions):
        if number:
            session.advise(bytes(8))
        assert session.wait(30) is not None
    return session

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

# Hosts that exit, and that are killed before the guard; tests/faults kills them at any later point.
original = fcntl.fcntl

def die_before_the_guard(descriptor, request, value=0):
    if request != fcntl.F_SETOWN:
        return original(descriptor, request, value)
    say(-value)
    os.kill(os.getpid(), signal.SIGKILL)

if os.fork() == 0:
    session = start(2)
    say(session.pid, os.getpid())
    os._exit(0)
os.wait()
if os.fork() == 0:
    fcntl.fcntl = die_before_the_guard
    start()
os.wait()
say()
say(len([name for name in sys.modules if "ptrace" in name]))

# Forks of a host that waits for a decision.
def close(session): session.close(); os._exit(0)
def kill(session): session.kill(); os._exit(0)
def leave(session): os._exit(0)
def collect(session): raise SystemExit

for copy in (close, kill, leave, collect):
    session = start(1)
    pid = os.fork()
    if pid == 0:
        copy(session)
    os.waitpid(pid, 0)
    decisions = 1
    session.advise(bytes(8))
    while session.wait(30) is not None:
        session.advise(bytes(8))
        decisions += 1
    say(decisions, len(session.finish(30).object_bytes))
say()
session = start(1)
copy = os.fork()
if copy == 0:
    signal.pause()
say(session.pid, copy)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_clang_ends_with_its_host_and_a_fork_leaves_it_to_the_original(compile_calls: Compilation) -> None:
    words = [sys.executable, "-c", HOST, *compile_calls.command]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        lines: Iterator[list[int]] = ([int(word) for word in line.split()] for line in host.stdout)
        ended = 0
        while pids := next(lines):
            assert all(ends_within(pid, 10) for pid in pids)
            ended += 1
        assert ended == 2
        assert next(lines) == [0]  # only copies need ptrace
        compiled = list(iter(lines.__next__, []))
        assert compiled == [compiled[0]] * 4
        assert compiled[0][0] == 9
        assert compiled[0][1] > 0
        pid, copy = next(lines)
        try:
            assert ends_within(pid, 10)
            assert alive(copy)
        finally:
            os.kill(copy, signal.SIGKILL)
    assert host.returncode == -signal.SIGKILL


MAKE = "import os; from mlgo_gym.compiler.connection import make_scratch; print(make_scratch(), flush=True)"


def test_a_host_removes_what_killed_hosts_left_and_nothing_else() -> None:
    own = make_scratch()
    assert own.stat().st_mode & 0o777 == 0o700
    assert own.parent.name.startswith(f"mlgo-gym-{os.getpid()}-")
    assert (scratch_parent() == "/dev/shm") == os.access("/dev/shm", os.W_OK)
    killed = subprocess.run(
        [sys.executable, "-c", f"{MAKE}\nos.kill(os.getpid(), 9)"], stdout=-1, text=True, check=False
    )
    left = Path(killed.stdout.strip())
    assert killed.returncode == -signal.SIGKILL
    # Process ids of other containers say nothing here.
    last = int(Path("/proc/sys/kernel/pid_max").read_text())
    young, old = (Path(scratch_parent(), f"mlgo-gym-{last}-abc-{name}") for name in ("young", "old"))
    others = [Path(scratch_parent(), name) for name in ("mlgo-gym-notes", "mlgo-gym-", "other-1-x")]
    for folder in (young, old, *others):
        folder.mkdir()
    yesterday = time.time() - 86500
    os.utime(old, (yesterday, yesterday))
    try:
        made = Path(subprocess.check_output([sys.executable, "-c", MAKE], text=True).strip())
        # Its own folder is gone too.
        assert [folder for folder in (left.parent, made.parent, old) if folder.exists()] == []
        assert [folder for folder in (own, young, *others) if not folder.exists()] == []
    finally:
        for folder in (own, left.parent, young, old, *others):
            shutil.rmtree(folder, ignore_errors=True)
