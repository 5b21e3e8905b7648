"""The terminal of a command: signals that end it, and untrusted names that must not control it."""

from __future__ import annotations

import signal
from itertools import chain
from types import FrameType

INTERRUPTED = 130
"""Exit status after Ctrl-C."""

CLEANUP_SECONDS = 20
"""Time limit for the clean-up after a signal; then the kernel kills the command and everything that it started."""

_CONTROL = {
    number: f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
    for number in chain(range(0x20), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A))
    if chr(number) not in "\t\n"
}


def exit_on_signals() -> None:
    """Let SIGTERM and SIGHUP raise `SystemExit(128 + number)`, so that the command cleans up as after Ctrl-C.

    A second signal ends the process at once. A signal that is ignored, such as SIGHUP under `nohup`, stays ignored.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit)


def _exit(number: int, _: FrameType | None) -> None:
    for signal_number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signal_number) is _exit:
            signal.signal(signal_number, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(CLEANUP_SECONDS)
    raise SystemExit(128 + number)


def escape_control_characters(text: str) -> str:
    """Return a text with control characters as escape sequences, except tabs and line ends.

    Raw, they could write to the clipboard, move the cursor, or reverse the order of characters.
    """
    return text.translate(_CONTROL)
