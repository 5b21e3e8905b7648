"""Child processes that never outlive this one: a compiler, and programs that run on untrusted input."""

import fcntl
import math
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any

from mlgo_clang.files import contents_of, message_file
from mlgo_clang.interactive import signal_when_closed
from mlgo_gym.compiler.limits import DEFAULT_LIMITS, Limits, raise_if_descriptor_limit, run_confined
from mlgo_gym.compiler.waiting import interruptible, uninterrupted
from mlgo_gym.errors import CompilerError, MlgoError, ToolchainError

CLOSED_AFTER_FORK: weakref.WeakSet[Any] = weakref.WeakSet()
"""Resources that every fork of this process closes by `close()`: compilers belong to the original."""


def _close_all() -> None:
    for resource in list(CLOSED_AFTER_FORK):
        resource.close()


os.register_at_fork(after_in_child=_close_all)


def close_descriptors(*descriptors: int) -> None:
    """Close the descriptors that are not negative."""
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)


class HostPipe:
    """A pipe whose `read_end` a program inherits; forks of this process close both ends.

    As a guard it kills a process group when it is closed, also by the exit of this process: the kernel sends SIGKILL
    (`signal_when_closed()`). A parent-death signal would need code between fork and exec, and
    fires when the starting thread exits. This process may be killed before `guard()`: the program must wait for input
    that follows it.
    """

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()
        # The program must see the end of the pipe when this process exits.
        CLOSED_AFTER_FORK.add(self)

    def guard(self, pid: int) -> None:
        """Kill process group `pid` when this is closed; the group keeps the only read end."""
        signal_when_closed(self.read_end, -pid, signal.SIGKILL)
        os.close(self.read_end)
        self.read_end = -1

    def send(self, word: str) -> None:
        """Send an argument; the program may have exited."""
        with suppress(BrokenPipeError):
            os.write(self._write_end, os.fsencode(word))

    @uninterrupted()
    def close(self) -> None:
        """Close both ends. Idempotent."""
        close_descriptors(self.read_end, self._write_end)
        self.read_end = self._write_end = -1
        CLOSED_AFTER_FORK.discard(self)


GUARD_DESCRIPTOR = 3
"""Descriptor of the read end of the guard pipe in the compiler."""

FIRST_EXTRA_DESCRIPTOR = 4
"""Descriptor of the first extra file in the compiler."""

STACK_USAGE_FLAGS = ("-stack-usage-file", f"/proc/self/fd/{FIRST_EXTRA_DESCRIPTOR}")
"""The `-cc1` arguments with which clang writes its stack frames to the first extra file, as for `-fstack-usage`."""

CLANG_ACTION = "-emit-obj"
"""An argument without which `clang -cc1` exits with an error."""


class CompilerProcess:
    """A child process that leads its own process group, guarded as by `HostPipe`.

    Attributes:
        pid, pidfd: Process id, also of its process group, and a descriptor that is readable once it has exited.
        exit_status: Exit status, negative for a signal; None while the process runs.
        guard: Write end of the guard pipe.
    """

    def __init__(self, pid: int, pidfd: int, guard: int) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.exit_status: int | None = None
        self.guard = guard

    @classmethod
    @uninterrupted()
    def start(
        cls,
        command: Sequence[str],
        *,
        stdout: int,
        stderr: int,
        extras: Sequence[int] = (),
        writable: Sequence[str | os.PathLike[str]] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        withheld: str = "",
    ) -> "CompilerProcess":
        """Start a program.

        Args:
            command: Program and arguments.
            stdout, stderr: Descriptors that become its standard output and standard error.
            extras: Descriptors that it receives from `FIRST_EXTRA_DESCRIPTOR` on.
            writable, limits: As for `run_bounded()`.
            withheld: Argument without which the program exits by itself. It reads the argument from a response file
                (a pipe) once it is guarded and limited; the pipe stays empty if this process was killed.

        Raises:
            CompilerError: The program cannot be started (kind `start`).
            MlgoError: The platform is not Linux, or this process ignores SIGCHLD.
        """
        if sys.platform != "linux":
            raise MlgoError(f"expected Linux, with pidfd and owned pipes, got {sys.platform}; use Linux")
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            # The kernel discards exit statuses then, and a successful compile would count as failed.
            raise MlgoError(
                "expected the default handling of SIGCHLD, got a process that ignores it, perhaps by inheritance; call "
                "signal.signal(signal.SIGCHLD, signal.SIG_DFL) first"
            )
        read_end, write_end = os.pipe()
        copies: list[int] = []
        pid, pidfd = 0, -1
        words = list(command)
        response: HostPipe | None = None
        try:
            # dup2 onto a low descriptor must not overwrite a source that is copied later.
            sources = [stdout, stderr, read_end, *extras]
            if withheld in words:
                response = HostPipe()
                words.remove(withheld)
                words.append(f"@/proc/self/fd/{FIRST_EXTRA_DESCRIPTOR + len(extras)}")
                sources.append(response.read_end)
            copies.extend(fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, 64) for source in sources)
            duplicates = [(os.POSIX_SPAWN_DUP2, copy, target) for target, copy in enumerate(copies, start=1)]
            spawn = partial(
                os.posix_spawn,
                words[0],
                words,
                os.environ,
                file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), *duplicates],
                setsid=True,
                setsigmask=[],
                setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ],
            )
            pid = spawn() if writable is None else run_confined(spawn, writable)
            signal_when_closed(read_end, -pid, signal.SIGKILL)
            pidfd = os.pidfd_open(pid)
            limits.apply(pid)
            if response is not None:
                response.send(withheld)
        except BaseException as error:
            close_descriptors(write_end, pidfd)
            if pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            raise_if_descriptor_limit(error)
            if not isinstance(error, OSError):
                raise
            message = f"cannot start {command[0]!r}: {error}"
            raise CompilerError(message, kind="start", command=tuple(command)) from error
        finally:
            close_descriptors(read_end, *copies)
            if response is not None:
                response.close()
        return cls(pid, pidfd, write_end)

    def poll(self) -> int | None:
        """Reap the process if it has exited; return its exit status, or None."""
        if self.exit_status is None and self.pidfd >= 0:
            try:
                if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    self._reap()
            except ChildProcessError:
                # Other code in this process has reaped it: the exit status is lost.
                self.exit_status = 255
        return self.exit_status

    @uninterrupted()
    def _reap(self) -> None:
        _, status = os.waitpid(self.pid, 0)
        self.exit_status = os.waitstatus_to_exitcode(status)

    @uninterrupted()
    def kill(self) -> None:
        """Kill the process group, and reap the process. Idempotent."""
        if self.pidfd < 0 or self.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        try:
            self._reap()
        except ChildProcessError:
            self.exit_status = -signal.SIGKILL

    @uninterrupted()
    def abandon(self) -> None:
        """Close the descriptors and leave the process alone: for a fork of this process."""
        close_descriptors(self.pidfd, self.guard)
        self.pidfd = self.guard = -1


def describe_exit(status: int | None) -> tuple[str, str]:
    """Return the kind and the message of a `CompilerError` for an exit status, which is negative for a signal."""
    if status is not None and status < 0:
        return "signal", f"clang crashed with signal {-status} ({signal.Signals(-status).name})"
    return "exit", f"clang failed with exit status {status}"


FileId = tuple[int, int]
"""Identity of a file: device and inode."""


def file_id(status: os.stat_result) -> FileId:
    """Return the identity of the file of a status."""
    return status.st_dev, status.st_ino


TIMEOUT = 3600.0
"""Default time limit in seconds."""

MAX_OUTPUT = 64 << 20
"""Maximum number of bytes on each standard stream; they are kept in memory."""

_LOOK_SECONDS = 0.1
"""Seconds between two looks at the size of the output."""


@uninterrupted()
def run_bounded(
    command: Sequence[str],
    *,
    writable: Sequence[str | os.PathLike[str]] | None = (),
    folder: str | os.PathLike[str] | None = None,
    timeout: float | None = TIMEOUT,
    limits: Limits = DEFAULT_LIMITS,
    name: str = "clang",
    errors: str = "replace",
    environment: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.CompletedProcess[str]:
    """Run a program and return its output; the caller checks the exit status.

    Its process group is killed when the program exits, when this function raises, and when this process exits.

    Args:
        command: Program and arguments.
        writable: Folders in which the program may write, where the kernel has Landlock; None allows all.
        folder: Working directory. Default: that of this process.
        timeout: Time limit in seconds; None for none.
        limits: Limits of the program, and of each program that it starts.
        name: Name of the program in error messages.
        errors: Handling of output that is not UTF-8, as for `bytes.decode()`.
        environment: Variables to set.

    Raises:
        ToolchainError: The program cannot be started, exceeds the time limit, or writes more than `MAX_OUTPUT`.
    """
    guard = HostPipe()
    streams: list[int] = []
    try:
        streams.extend(message_file() for _ in range(2))

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=streams[0],
                stderr=streams[1],
                pass_fds=(guard.read_end,),
                start_new_session=True,
            )

        try:
            process = start() if writable is None else run_confined(start, writable)
        except OSError as error:
            raise ToolchainError(f"cannot start {command[0]!r}: {error}") from error
        try:
            guard.guard(process.pid)
            limits.apply(process.pid)
            _wait(process, streams, name, timeout)
        finally:
            # Also programs that it left running.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        stdout, stderr = (contents_of(stream).decode(errors=errors) for stream in streams)
    finally:
        guard.close()
        close_descriptors(*streams)
    exceeded = limits.exceeded(process.returncode, stderr, name)
    if exceeded is not None:
        stderr = f"{exceeded[1]}\n{stderr}".rstrip()
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _wait(process: subprocess.Popen[bytes], streams: Sequence[int], name: str, timeout: float | None) -> None:
    """Wait until a program exits; raise `ToolchainError` after the timeout, or if it writes more than `MAX_OUTPUT`."""
    end = math.inf if timeout is None else time.monotonic() + timeout
    exited = os.pidfd_open(process.pid)
    try:
        poll = select.poll()  # unlike select(2) for any number of descriptors
        poll.register(exited, select.POLLIN)
        is_running = True
        while is_running:
            left = end - time.monotonic()
            if left <= 0:
                words = " ".join(process.args)[:500]  # type: ignore[arg-type] # they are words
                raise ToolchainError(f"{name} did not finish within {timeout:g} s: {words}; raise the time limit")
            is_running = not interruptible(poll.poll, 1000 * min(left, _LOOK_SECONDS))
            if any(os.fstat(stream).st_size > MAX_OUTPUT for stream in streams):
                raise ToolchainError(f"expected at most {MAX_OUTPUT >> 20} MiB of output from {name}, got more")
    finally:
        os.close(exited)
