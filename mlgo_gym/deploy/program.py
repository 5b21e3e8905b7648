"""How the programs end that `mlgo-clang` runs: with an exit status, and an error on standard error, which it shows."""

from __future__ import annotations

import sys
from collections.abc import Callable

from mlgo_gym.errors import MlgoError


def exit_status_of(work: Callable[[], object]) -> int:
    """Do what a program is for, and return its exit status: 1 where that failed, and it has said why."""
    try:
        work()
    except (MlgoError, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - for mlgo-clang, which shows it
        return 1
    return 0
