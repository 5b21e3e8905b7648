"""A command that is told to end, by SIGTERM or SIGHUP, ends as by Ctrl-C: it tidies up, and in bounded time."""

from __future__ import annotations

import signal
from types import FrameType

INTERRUPTED = 130
"""The exit status of a command that Ctrl-C has ended."""

SECONDS = 20
"""So long a command may take to tidy up; then the kernel ends it, and what it has started with it."""


def tidy_up_when_told_to_end() -> None:
    """Have SIGTERM and SIGHUP raise `SystemExit` with the status that a shell gives them, 128 and the number.

    A second one ends the process at once. One that is ignored, as SIGHUP behind `nohup`, stays so.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, _: FrameType | None) -> None:
    for each in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) is _end:
            signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    raise SystemExit(128 + number)
