"""Runs a program on untrusted input: within limits, and without the right to write."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial

from mlgo_gym.compiler.confinement import run_confined
from mlgo_gym.compiler.interrupts import interruptible, uninterrupted
from mlgo_gym.compiler.limits import DEFAULT_LIMITS, Limits
from mlgo_gym.compiler.process import HostPipe
from mlgo_gym.errors import ToolchainError

TIMEOUT = 3600.0
"""Default time limit in seconds."""

MAX_OUTPUT = 64 << 20
"""Maximum number of bytes on each standard stream; they are kept in memory."""

_CHUNK = 1 << 16


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

    Raises:
        ToolchainError: The program cannot be started, exceeds the time limit, or writes more than `MAX_OUTPUT`.
    """
    with ExitStack() as resources:
        start = partial(_start, command, folder, limits, resources)
        try:
            process = start() if writable is None else run_confined(start, writable)
        except OSError as error:
            raise ToolchainError(f"cannot start {command[0]!r}: {error}") from error
        written = _finish(process, name, timeout)
        stdout, stderr = (stream.decode(errors=errors) for stream in written)
        exceeded = limits.exceeded(process.returncode, stderr, name)
        if exceeded is not None:
            stderr = f"{exceeded}\n{stderr}".rstrip()
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _start(
    command: Sequence[str], folder: str | os.PathLike[str] | None, limits: Limits, resources: ExitStack
) -> subprocess.Popen[bytes]:
    """Start a process group; `resources` ends it."""
    guard = HostPipe()
    resources.callback(guard.close)
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(guard.read_end,),
        start_new_session=True,
    )
    resources.callback(_end, process)
    guard.guard(process.pid)
    limits.apply(process.pid)
    return process


def _finish(process: subprocess.Popen[bytes], name: str, timeout: float | None) -> list[bytearray]:
    """Wait until the program exits; return its standard output and standard error."""
    end = None if timeout is None else time.monotonic() + timeout
    assert process.stdout is not None
    assert process.stderr is not None
    written = {stream.fileno(): bytearray() for stream in (process.stdout, process.stderr)}
    with selectors.DefaultSelector() as selector:
        ended = os.pidfd_open(process.pid)
        try:
            selector.register(ended, selectors.EVENT_READ)
            for stream, output in written.items():
                os.set_blocking(stream, False)
                selector.register(stream, selectors.EVENT_READ, partial(_read, name, stream, output))
            over = False
            while not over:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    words = " ".join(process.args)[:500]  # type: ignore[arg-type] # they are words
                    raise ToolchainError(f"{name} did not finish within {timeout:g} s: {words}; raise the time limit")
                for key, _ in interruptible(selector.select, left):
                    over |= key.fd == ended
                    # A closed stream stays readable.
                    if key.fd != ended and key.data() is False:
                        selector.unregister(key.fileobj)
        finally:
            os.close(ended)
    # Programs that it left running may hold its streams open.
    _kill(process)
    for stream, output in written.items():
        _read(name, stream, output)
    process.wait()
    return list(written.values())


def _read(name: str, descriptor: int, output: bytearray) -> bool:
    """Read the available output; return whether more may follow."""
    while True:
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return True
        if not data:
            return False
        output += data
        if len(output) > MAX_OUTPUT:
            raise ToolchainError(f"expected at most {MAX_OUTPUT >> 20} MiB of output from {name}, got more")


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group if it still runs, and close its streams."""
    if process.returncode is None:
        _kill(process)
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
