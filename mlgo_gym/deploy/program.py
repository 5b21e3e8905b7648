"""The programs that `mlgo-clang` starts: their exit status, and the tools that they run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.errors import MlgoError, ToolchainError


def exit_status_of(work: Callable[[], object]) -> int:
    """Do the work of a program and return its exit status: 1 after an error, whose text is one line on standard error.

    `mlgo-clang` shows the line.
    """
    try:
        work()
    except (MlgoError, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)  # noqa: T201 - for mlgo-clang
        return 1
    return 0


def output_of(command: Sequence[str]) -> str:
    """Run a tool and return its standard output, or raise a ToolchainError."""
    result = run_bounded(command, writable=None, name=command[0])
    if result.returncode != 0:
        raise ToolchainError(f"{command[0]} failed: {result.stderr.strip()[-2000:]}")
    return result.stdout.strip()
