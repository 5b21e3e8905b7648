"""One compiler process; it never outlives its host."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mlgo_gym.errors import CompilerError
from mlgo_gym.session.process.limits import CPU_SECONDS
from mlgo_gym.session.process.process import FIRST_EXTRA_DESCRIPTOR, GUARD_DESCRIPTOR, CompilerProcess
from tests.traces import alive, ends_within, traces

pytestmark = pytest.mark.usefixtures("nothing_is_left")

SLEEP = ("/bin/sleep", "60")


class Pipe:
    """A pipe whose write end a process receives."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()

    def read_all(self) -> bytes:
        os.close(self.write_end)
        self.write_end = -1
        with os.fdopen(self.read_end, "rb", closefd=False) as stream:
            return stream.read()

    def close(self) -> None:
        for descriptor in (self.read_end, self.write_end):
            if descriptor >= 0:
                os.close(descriptor)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def start(command: Sequence[str], out: int | None = None, extras: Sequence[int] = ()) -> CompilerProcess:
    with Path(os.devnull).open("wb") as nowhere:
        sink = nowhere.fileno() if out is None else out
        return CompilerProcess.start(command, stdout=sink, stderr=sink, extras=extras)


def inheritable(descriptor: int) -> bool:
    try:
        return descriptor > GUARD_DESCRIPTOR and os.get_inheritable(descriptor)
    except OSError:
        return False


def ended(process: CompilerProcess) -> int | None:
    poll = select.poll()
    poll.register(process.pidfd, select.POLLIN)
    assert poll.poll(10_000)
    return process.poll()


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", -signal.SIGSEGV)])
def test_the_exit_status_of_a_process(script: str, status: int) -> None:
    process = start(["/bin/sh", "-c", script])
    assert ended(process) == status
    process.close()


def test_a_running_process_has_no_exit_status() -> None:
    process = start(SLEEP)
    assert process.poll() is None
    process.close()
    assert process.exit_status == -signal.SIGKILL


def test_closing_twice_is_closing_once() -> None:
    before = traces()
    process = start(SLEEP)
    process.close()
    process.close()
    assert not alive(process.pid)
    assert traces() <= before


def test_killing_after_the_end_keeps_the_exit_status() -> None:
    process = start(["/bin/sh", "-c", "exit 3"])
    ended(process)
    process.kill()
    assert process.exit_status == 3
    process.close()


def test_it_receives_its_streams_and_files(pipe: Pipe, tmp_path: Path) -> None:
    script = f"echo out; echo err >&2; echo extra >&{FIRST_EXTRA_DESCRIPTOR}; wc -c"
    with (tmp_path / "extra").open("wb") as extra:
        process = start(["/bin/sh", "-c", script], pipe.write_end, [extra.fileno()])
    assert pipe.read_all().split() == [b"out", b"err", b"0"]
    assert (tmp_path / "extra").read_bytes() == b"extra\n"
    process.close()


def test_it_inherits_nothing_else(pipe: Pipe) -> None:
    # Descriptors that this program inherited are passed on; its own are not.
    given = {int(link.name) for link in Path("/proc/self/fd").iterdir() if inheritable(int(link.name))}
    process = start(["/bin/sh", "-c", "ls /proc/$$/fd"], pipe.write_end)
    assert {int(number) for number in pipe.read_all().split()} - given == {0, 1, 2, 3} - given
    process.close()


def test_it_starts_without_signals_that_python_ignores() -> None:
    process = start(SLEEP)
    status = Path(f"/proc/{process.pid}/status").read_text()
    ignored, blocked = (int(status.split(f"{field}:")[1].split()[0], 16) for field in ("SigIgn", "SigBlk"))
    process.close()
    assert ignored & 1 << (signal.SIGPIPE - 1) == 0
    assert blocked == 0


def test_it_leads_a_process_group_and_has_a_cpu_limit() -> None:
    process = start(SLEEP)
    group, limits = os.getpgid(process.pid), resource.prlimit(process.pid, resource.RLIMIT_CPU)
    process.close()
    assert group == process.pid
    assert limits == (CPU_SECONDS, CPU_SECONDS + 5)


def test_its_children_end_with_it(pipe: Pipe) -> None:
    process = start(["/bin/sh", "-c", "sleep 60 & echo $!; wait"], pipe.write_end)
    child = int(os.read(pipe.read_end, 100))
    process.close()
    assert ends_within(child, 1)


def test_a_child_that_it_left_running_is_killed_by_close(pipe: Pipe) -> None:
    process = start(["/bin/sh", "-c", "sleep 60 & echo $!"], pipe.write_end)
    child = int(os.read(pipe.read_end, 100))
    assert ended(process) == 0
    assert alive(child)
    process.close()
    assert ends_within(child, 1)


@pytest.mark.parametrize("program", ["/no/such/program", "/etc/passwd", "/"])
def test_a_program_that_cannot_be_started_is_a_typed_error_that_leaves_nothing(program: str) -> None:
    before = traces()
    with pytest.raises(CompilerError, match=f"cannot start '{program}'") as caught:
        start([program])
    assert caught.value.kind == "start"
    assert traces() <= before


def test_other_code_may_reap_it() -> None:
    process = start(["/bin/true"])
    os.waitpid(process.pid, 0)
    assert process.poll() == 255
    process.close()


def test_the_thread_that_started_it_may_end() -> None:
    started: list[CompilerProcess] = []
    thread = threading.Thread(target=lambda: started.append(start(SLEEP)))
    thread.start()
    thread.join()
    (process,) = started
    assert not ends_within(process.pid, 0.05)
    process.close()


HOST = """
import os, signal, sys
from mlgo_gym.session.process.process import CompilerProcess
nowhere = os.open(os.devnull, os.O_WRONLY)
process = CompilerProcess.start(("/bin/sleep", "60"), stdout=nowhere, stderr=nowhere)
{then}
"""


def host(then: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOST.format(then=then)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_it_ends_within_a_second_of_a_host_that_is_killed() -> None:
    with host("print(process.pid, flush=True); sys.stdin.read()") as running:
        assert running.stdout is not None
        pid = int(running.stdout.readline())
        assert alive(pid)
        running.kill()
        assert ends_within(pid, 1)


def test_it_ends_with_a_host_that_is_killed_right_after_the_start() -> None:
    with host("os.write(1, b'%d\\n' % process.pid); os.kill(os.getpid(), signal.SIGKILL)") as running:
        assert running.stdout is not None
        assert ends_within(int(running.stdout.readline()), 1)


def test_it_is_killed_with_its_host_while_a_fork_of_the_host_continues() -> None:
    then = "copy = os.fork()\nif copy == 0: process.abandon(); print(flush=True); signal.pause()\n"
    with host(then + "print(process.pid, copy, flush=True); sys.stdin.read()") as running:
        assert running.stdout is not None
        words = (running.stdout.readline() + running.stdout.readline()).split()
        pid, copy = map(int, words)
        try:
            assert not ends_within(pid, 0.05)
            running.kill()
            assert ends_within(pid, 1)
            assert alive(copy)
        finally:
            os.kill(copy, signal.SIGKILL)
