"""What one call of `mlgo-clang` does: it becomes clang, or compiles with a policy deciding."""

from __future__ import annotations

import os
import signal
import sys

from mlgo_clang.compiler import NoCompilerError, compiler_command
from mlgo_clang.counters import count
from mlgo_clang.invocation import read_invocation
from mlgo_clang.settings import UsageError, split_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


FAILED = 1


def run(mode: str, arguments: Sequence[str]) -> int:
    """Do what a command line asks for and return the exit status; most often this process becomes clang.

    Args:
        mode: `gcc` or `g++`, the language that the driver assumes.
        arguments: the words after the program's name.
    """
    try:
        settings, rest = split_arguments(arguments)
        compiler = compiler_command(settings.clang, mode)
    except (UsageError, NoCompilerError) as error:
        say(f"error: {error}")
        return FAILED
    command = [*compiler, *rest]
    if settings.leaves_all_to_clang:
        become(command)
    if "--version" in rest:
        from mlgo_clang.version import show_version

        return show_version(settings, command)
    invocation = read_invocation(rest)
    if invocation.reason or invocation.level not in settings.levels:
        count("left to clang")
        become(command)
    from mlgo_clang.advised import compile_advised

    return compile_advised(settings, invocation, compiler, rest)


def become(command: Sequence[str]) -> NoReturn:
    """Replace this process by clang, so that nothing stands between clang and the caller."""
    # Python ignores these, and clang would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], list(command))  # noqa: S606 - a driver becomes the compiler
    except OSError as error:
        say(f"error: {command[0]} cannot be started: {error}")
        sys.exit(FAILED)


def say(message: str) -> None:
    """Write a line of our own to standard error."""
    print(f"mlgo-clang: {message}", file=sys.stderr, flush=True)  # noqa: T201 - a compiler's messages
