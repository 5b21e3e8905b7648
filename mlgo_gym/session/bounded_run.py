"""A compiler that runs to its end unasked, on what may be a stranger's: within limits, and without writing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from mlgo_gym.llvm.toolchain import finishing
from mlgo_gym.session.confinement import run_confined
from mlgo_gym.session.limits import DEFAULT_LIMITS, Limits

TIMEOUT = 3600.0
"""After so many seconds it is killed, unless the caller says otherwise."""


def run_bounded(
    command: Sequence[str],
    *,
    writable: Sequence[str | os.PathLike[str]] | None = (),
    folder: str | os.PathLike[str] | None = None,
    timeout: float = TIMEOUT,
    limits: Limits = DEFAULT_LIMITS,
) -> subprocess.CompletedProcess[str]:
    """Run a compiler and return what it wrote; the caller looks at the exit status.

    Args:
        command: the program and its arguments.
        writable: the only folders in which it may write, where the kernel can see to that; None is everywhere.
        folder: where it runs; None is here.
        timeout: how long it may take, in seconds.
        limits: how much it may take.

    Raises:
        ToolchainError: it cannot be started, or runs longer.
    """

    def run() -> subprocess.CompletedProcess[str]:
        with subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as process:
            try:
                limits.impose(process.pid)
                stdout, stderr = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        exceeded = limits.exceeded(process.returncode, stderr)
        return subprocess.CompletedProcess(command, process.returncode, stdout, exceeded or stderr)

    with finishing(command[0], command, timeout):
        return run() if writable is None else run_confined(run, writable)
