"""The root of all errors, and those that `mlgo-clang` and `mlgo_gym` share."""

from __future__ import annotations

import os
import sys

from mlgo_clang.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class MlgoError(Exception):
    """The root of all errors of mlgo-gym.

    Attributes:
        env_id: Index of the failed environment if a vector environment raises the error; else None.
    """

    env_id: int | None = None


class PolicyError(MlgoError):
    """A policy that is not found, cannot be loaded, or does not fit the environment or the decisions of a clang."""


class CandidateError(PolicyError):
    """A compile that fails with the decisions of one policy, and may succeed with those of another."""


class ProtocolError(MlgoError):
    """A clang that does not follow the protocol of a channel."""


class UsageError(MlgoError):
    """A command line of `mlgo-clang` that cannot be followed, or one without a compiler."""


def _exit_with_children(number: int, _frame: FrameType | None) -> None:
    """Stop the children of this process, also one that `subprocess` is starting, and exit."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                if int(file.read().rpartition(b") ")[2].split()[1]) == os.getpid():
                    os.kill(int(name), signal.SIGKILL)
        except (OSError, IndexError):
            continue
    sys.exit(128 + number)


def exit_status_of(work: Callable[[], object]) -> int:
    """Do the work of a program and return its exit status: 1 after an error, whose text is one line on standard error.

    `mlgo-clang` shows the line. It ends the program by SIGTERM, after which nothing that the program started runs.
    """
    before = signal.signal(signal.SIGTERM, _exit_with_children)
    try:
        work()
    except (MlgoError, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)  # noqa: T201 - for mlgo-clang
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0
