"""A program that runs to its end unasked, on what may be a stranger's: within limits, and without writing."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from mlgo_gym.errors import ToolchainError
from mlgo_gym.session.confinement import run_confined
from mlgo_gym.session.guard import Guard
from mlgo_gym.session.limits import DEFAULT_LIMITS, Limits

TIMEOUT = 3600.0
"""After so many seconds it is killed, unless the caller says otherwise."""

MOST_OUTPUT = 64 << 20
"""So many bytes it may write to each of its standard streams, which are kept in memory."""

_CHUNK = 1 << 16


def run_bounded(
    command: Sequence[str],
    *,
    writable: Sequence[str | os.PathLike[str]] | None = (),
    folder: str | os.PathLike[str] | None = None,
    timeout: float | None = TIMEOUT,
    limits: Limits = DEFAULT_LIMITS,
    name: str = "clang",
    errors: str = "replace",
    first_line: str = "",
    attended: Mapping[int, Callable[[], None]] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program and return what it wrote; the caller looks at the exit status.

    It leads a process group, which ends with it, with the exception that this may raise, and with this process,
    however that ends.

    Args:
        command: the program and its arguments.
        writable: the only folders in which it may write, where the kernel can see to that; None is everywhere.
        folder: where it runs; None is here.
        timeout: how long it may take, in seconds; None is for ever.
        limits: how much it, and each program that it starts, may take.
        name: what it is called in errors.
        errors: what becomes of bytes that are no UTF-8 in what it writes, as for `bytes.decode()`.
        first_line: what it finds on its standard input, once it is limited and watched; otherwise that is empty.
        attended: descriptors, and what is called in this thread while one of them can be read.

    Raises:
        ToolchainError: it cannot be started, runs longer, or writes more than `MOST_OUTPUT`.
    """
    begun: list[_Program] = []
    start = partial(_Program, command, folder, limits, first_line, begun)
    try:
        try:
            _ = start() if writable is None else run_confined(start, writable)
        except OSError as error:
            raise ToolchainError(f"{command[0]} cannot be started: {error}") from error
        [program] = begun
        written = program.finish(name, timeout, attended or {})
        stdout, stderr = (stream.decode(errors=errors) for stream in written)
        exceeded = limits.exceeded(program.status, stderr, name)
        if exceeded is not None:
            stderr = f"{exceeded}\n{stderr}".rstrip()
        return subprocess.CompletedProcess(command, program.status, stdout, stderr)
    finally:
        for each in begun:
            each.close()


class _Program:
    """A process group with an end of its own.

    Args:
        begun: to which this is added as soon as there is something to end.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: str | os.PathLike[str] | None,
        limits: Limits,
        first_line: str,
        begun: list[_Program],
    ) -> None:
        self._command = command
        self._guard = Guard()
        try:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.PIPE if first_line else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(self._guard.read_end,),
                start_new_session=True,
            )
        except BaseException:
            self._guard.close()
            raise
        begun.append(self)
        self._guard.watch(self._process.pid)
        limits.impose(self._process.pid)
        if self._process.stdin is not None:
            with suppress(BrokenPipeError), self._process.stdin:
                self._process.stdin.write(first_line.encode())

    @property
    def status(self) -> int:
        """How it ended, negative for the number of a signal."""
        return int(self._process.returncode)

    def finish(
        self, name: str, timeout: float | None, attended: Mapping[int, Callable[[], None]]
    ) -> tuple[bytes, bytes]:
        """Wait for its end, and return what it wrote to standard output and error."""
        end = None if timeout is None else time.monotonic() + timeout
        written = {stream: bytearray() for stream in (self._process.stdout, self._process.stderr)}
        with selectors.DefaultSelector() as selector:
            ended = os.pidfd_open(self._process.pid)
            try:
                selector.register(ended, selectors.EVENT_READ)
                for descriptor, call in attended.items():
                    selector.register(descriptor, selectors.EVENT_READ, call)
                for stream, kept in written.items():
                    assert stream is not None  # it is a pipe
                    os.set_blocking(stream.fileno(), False)
                    selector.register(stream, selectors.EVENT_READ, partial(self._read, name, stream.fileno(), kept))
                over = False
                while not over:
                    left = None if end is None else end - time.monotonic()
                    if left is not None and left <= 0:
                        words = " ".join(self._command)[:500]
                        raise ToolchainError(f"{name} was to finish within {timeout:g} s and did not: {words}")
                    for key, _ in selector.select(left):
                        over |= key.fd == ended
                        # What has closed a stream does not say so for ever.
                        if key.fd != ended and key.data() is False:
                            selector.unregister(key.fileobj)
            finally:
                os.close(ended)
        # What it has left behind may hold its streams open, for ever.
        self._kill()
        for stream, kept in written.items():
            assert stream is not None
            self._read(name, stream.fileno(), kept)
        self._process.wait()
        stdout, stderr = map(bytes, written.values())
        return stdout, stderr

    def _read(self, name: str, descriptor: int, kept: bytearray) -> bool:
        """Read what there is; return whether there may be more."""
        while True:
            try:
                data = os.read(descriptor, _CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            kept += data
            if len(kept) > MOST_OUTPUT:
                raise ToolchainError(f"{name} was to write at most {MOST_OUTPUT >> 20} MiB of text, and writes more")

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End what still runs of it. Idempotent."""
        if self._process.returncode is None:
            self._kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        self._guard.close()
