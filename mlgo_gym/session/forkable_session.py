"""A session that can be forked while a decision waits: only this one needs ptrace."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping

from mlgo_gym.errors import SnapshotError
from mlgo_gym.session.file_id import FileId, file_id
from mlgo_gym.session.process import GUARD_DESCRIPTOR, CompilerProcess
from mlgo_gym.session.session import Session
from mlgo_gym.session.snapshot import copy_process

FORK_SECONDS = 10.0
"""The longest that a fork may take; it takes milliseconds."""


class ForkableSession(Session):
    """One compile by one clang, of which exact copies can be made; the arguments are those of `Session`."""

    def fork(self, timeout: float = FORK_SECONDS) -> ForkableSession:
        """Return an exact, independent copy of the session and its clang, which waits with the same decision.

        It may be made in any thread, any number of times, of copies too; all are closed in any order. It takes a
        millisecond for 50 MB of memory.

        Args:
            timeout: the longest that it may take, in seconds.

        Raises:
            SnapshotError: no decision waits for `advise()`; or this machine, or what clang is doing, does not let it be
                copied. This session goes on, and no copy is left.
        """
        if self._waiting is None or self._process is None or self.exited:
            raise SnapshotError("a session can be forked while a decision waits for its answer, and none does")
        if self._process.poll() is not None:
            raise SnapshotError(f"clang was to wait for an answer, and has ended: {self.failure()}")
        # clang waits: what it has written and we have not read would be lost to the copy, which gets new files.
        self._read_all()
        if self._core is not None:
            self._core.release()
        twin = ForkableSession.__new__(ForkableSession)
        twin._begin(self.advisors, self.command, self._stderr.copy(), self.limits)
        twin._waiting = self._waiting

        def make_files() -> tuple[dict[FileId, str], str]:
            twin._connection, files = self._connection.copy()
            return files, twin._connection.name("guard")

        try:
            reading = self._connection.channels[self._waiting].advice
            twin._process = _fork(self._process, reading, make_files, timeout)
            if twin._connection.all_channels_open():
                twin._connection.drop_names()
            twin._watch()
        except BaseException as error:
            twin.close()
            if isinstance(error, OSError):
                raise SnapshotError(f"a copy of clang was to be watched: {error}") from error
            raise
        return twin


def _fork(
    process: CompilerProcess, reading: int, make_files: Callable[[], tuple[Mapping[FileId, str], str]], timeout: float
) -> CompilerProcess:
    """Return an exact copy of a process, as well guarded, that waits in the same read.

    Args:
        process: the process; where it cannot be copied it goes on, and no copy is left.
        reading: a descriptor of the file that it waits for.
        make_files: returns what the copy opens in place of what, as for `copy_process`, but for the guard; and a free
            path for the copy's guard.
        timeout: the longest that it may take, in seconds.
    """
    write_end = -1

    def make_all() -> dict[FileId, str]:
        nonlocal write_end
        files, guard = make_files()
        os.mkfifo(guard, 0o600)
        # That we could read it too does not matter: without a writer it goes off.
        write_end = os.open(guard, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        return {**files, file_id(os.fstat(process.guard)): guard}

    try:
        pid = copy_process(process.pid, file_id(os.fstat(reading)), make_all, GUARD_DESCRIPTOR, timeout)
        try:
            pidfd = os.pidfd_open(pid)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
    except BaseException:
        if write_end >= 0:
            os.close(write_end)
        raise
    return CompilerProcess(pid, pidfd, write_end)
