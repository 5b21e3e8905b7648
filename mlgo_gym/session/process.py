"""One compiler process: started, watched, reaped, and never outliving its host."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial

from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.session.confinement import run_confined
from mlgo_gym.session.descriptor_limit import refuse_at_descriptor_limit
from mlgo_gym.session.guard import kill_group_with
from mlgo_gym.session.host_pipe import HostPipe
from mlgo_gym.session.limits import DEFAULT_LIMITS, Limits

GUARD_DESCRIPTOR = 3
"""Where a compiler holds the read end of its guard pipe."""

FIRST_EXTRA_DESCRIPTOR = 4
"""Where a compiler holds the first of the files that it was given beside its standard streams."""

CLANG_ACTION = "-emit-obj"
"""A word without which `clang -cc1` ends with an error."""


class CompilerProcess:
    """A child process in a process group of its own.

    The child holds the read end of a pipe whose only write end is here, see `mlgo_gym.session.guard`. A host can be
    killed before that guard is set: what is withheld from the child until then keeps it from ever waiting for it.

    Attributes:
        pid: the process id, also of its process group.
        pidfd: a descriptor that becomes readable when the process ends.
        exit_status: None while it runs, then the exit status, negative for the number of a signal.
        guard: our end of the guard pipe.
    """

    def __init__(self, pid: int, pidfd: int, guard: int) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.exit_status: int | None = None
        self.guard = guard

    @classmethod
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
    ) -> CompilerProcess:
        """Start a program.

        Args:
            command: the program and its arguments.
            stdout: the descriptor that becomes its standard output.
            stderr: the descriptor that becomes its standard error.
            extras: descriptors that it finds at `FIRST_EXTRA_DESCRIPTOR` and up.
            writable: the only folders in which it may write, where the kernel can see to that; None is everywhere.
            limits: how much it may take.
            withheld: a word of the command, without which the program ends by itself, and which it reads once it is
                guarded and limited: from a response file, a pipe that stays empty if this process is gone.

        Raises:
            CompilerError: of kind `start`, when the program cannot be started.
            MlgoError: on a platform other than Linux, or in a process that ignores SIGCHLD.
        """
        if sys.platform != "linux":
            raise MlgoError(
                f"compilers are watched with Linux's pidfd and owned pipes; this is {sys.platform}: use Linux"
            )
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            # The kernel then forgets how a child ended, and a good end is taken for a failure.
            raise MlgoError(
                "how a compiler ends cannot be known while this process ignores SIGCHLD, which it may have inherited: "
                "signal.signal(signal.SIGCHLD, signal.SIG_DFL) first"
            )
        read_end, write_end = os.pipe()
        copies: list[int] = []
        pid = 0
        words = list(command)
        response: _Response | None = None
        try:
            # dup2 onto a low number must not overwrite a source that is still to be copied.
            sources = [stdout, stderr, read_end, *extras]
            if withheld in words:
                response = _Response()
                words.remove(withheld)
                words.append(f"@/proc/self/fd/{FIRST_EXTRA_DESCRIPTOR + len(extras)}")
                sources.append(response.read_end)
            copies.extend(fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, 64) for source in sources)
            actions: list[tuple[int, int, str, int, int] | tuple[int, int, int]] = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
            ]
            actions.extend((os.POSIX_SPAWN_DUP2, copy, target) for target, copy in enumerate(copies, start=1))
            spawn = partial(
                os.posix_spawn,
                words[0],
                words,
                os.environ,
                file_actions=actions,
                setsid=True,
                setsigmask=[],
                setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ],
            )
            pid = spawn() if writable is None else run_confined(spawn, writable)
            kill_group_with(read_end, pid)
            pidfd = os.pidfd_open(pid)
            limits.impose(pid)
            if response is not None:
                response.give(withheld)
        except OSError as error:
            os.close(write_end)
            if pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            refuse_at_descriptor_limit(error)
            raise CompilerError(
                f"{command[0]} cannot be started: {error}",
                kind="start",
                exit_status=None,
                stderr="",
                command=tuple(command),
            ) from error
        finally:
            os.close(read_end)
            for copy in copies:
                os.close(copy)
            if response is not None:
                response.close()
        return cls(pid, pidfd, write_end)

    def poll(self) -> int | None:
        """Reap the process if it has ended and return its exit status, else None."""
        if self.exit_status is None and self.pidfd >= 0:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                # Somebody else in this program reaped it; how it ended cannot be known any more.
                self.exit_status = 255
            else:
                if pid:
                    self.exit_status = os.waitstatus_to_exitcode(status)
        return self.exit_status

    def kill(self) -> None:
        """End the process and everything in its group, and reap it. Idempotent."""
        if self.pidfd < 0 or self.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        try:
            _, status = os.waitpid(self.pid, 0)
            self.exit_status = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            self.exit_status = -signal.SIGKILL

    def close(self) -> None:
        """Kill the process if it still runs, and close its descriptors. Idempotent."""
        self.kill()
        self.abandon()

    def abandon(self) -> None:
        """Close the descriptors without touching the process: for a forked copy of the host."""
        for descriptor in (self.pidfd, self.guard):
            if descriptor >= 0:
                os.close(descriptor)
        self.pidfd = self.guard = -1


class _Response(HostPipe):
    """A pipe that gives a program one more word of its command line; once it is closed, the program has all it gets."""

    def give(self, word: str) -> None:
        """Tell the word to the program, which may have ended."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._write_end, os.fsencode(word))


def describe_end(status: int | None) -> tuple[str, str]:
    """Return the kind of a compiler's failure, as `CompilerError` names it, and a sentence about it.

    Args:
        status: its exit status, negative for the number of a signal.
    """
    if status is not None and status < 0:
        return "signal", f"clang crashed with signal {-status} ({signal.Signals(-status).name})"
    return "exit", f"clang failed with exit status {status}"
