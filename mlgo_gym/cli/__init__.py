"""The command line, `mlgo-gym`: thin commands over the library, one file per command or group."""

import errno
import logging
import signal
import sys
from types import FrameType

from mlgo_gym.cli.terminal import INTERRUPTED, escape_control_characters

_USAGE_ERROR = 2

CLEANUP_SECONDS = 20
"""Time limit for the clean-up after a signal; then the kernel kills the command and everything that it started."""


def main() -> None:
    """Run the command line; an error of mlgo-gym is one message and exit status 2."""
    from mlgo_gym.errors import MissingExtraError, MlgoError

    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        # Inherited from the parent; the kernel would discard the exit statuses of compilers and workers.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    exit_on_signals()
    _log_to_standard_error()
    try:
        try:
            from mlgo_gym.cli.application import application
        except ModuleNotFoundError as error:
            if error.name and error.name.split(".")[0] in {"typer", "rich", "click"}:
                raise MissingExtraError("the command line", "cli") from error
            raise
        application()
    except KeyboardInterrupt as error:
        # While commands are loading; a running command handles Ctrl-C itself.
        raise SystemExit(INTERRUPTED) from error
    except OSError as error:
        from mlgo_gym.cache import UNWRITABLE

        if error.errno not in {*UNWRITABLE, errno.EEXIST, errno.EISDIR}:
            raise
        file = f"{error.filename}: " if error.filename else ""
        _fail(f"{file}{error.strerror}; free some space, or name a writable file or folder", error)
    except RecursionError as error:
        _fail("a folder or a file is nested too deeply for Python; exclude it", error)
    except MlgoError as error:
        _fail(str(error), error)


def _fail(message: str, error: Exception) -> None:
    print(f"mlgo-gym: {escape_control_characters(message)}", file=sys.stderr)  # noqa: T201 - error output of the command line
    raise SystemExit(_USAGE_ERROR) from error


def _log_to_standard_error() -> None:
    messages = logging.StreamHandler()
    messages.setFormatter(logging.Formatter("mlgo-gym: %(message)s"))
    log = logging.getLogger("mlgo_gym")
    log.addHandler(messages)
    log.setLevel(logging.INFO)


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
