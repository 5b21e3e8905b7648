"""The command line, `mlgo-gym`: thin commands over the library, one file per command or group."""

from __future__ import annotations

import logging
import signal
import sys

from mlgo_gym.cli.termination import INTERRUPTED, tidy_up_when_told_to_end
from mlgo_gym.cli.visible import visible


def main() -> None:
    """Run the command line; errors of mlgo-gym end it with one message and exit status 2."""
    from mlgo_gym.errors import MissingExtraError, MlgoError

    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        # Inherited of what started this; the kernel would forget how compilers and workers ended.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    tidy_up_when_told_to_end()
    _say_what_takes_long()
    try:
        try:
            from mlgo_gym.cli.application import application
            from mlgo_gym.cli.machines import with_addresses
        except ModuleNotFoundError as error:
            if error.name and error.name.split(".")[0] in {"typer", "rich", "click"}:
                raise MissingExtraError("the command line", "cli") from error
            raise
        application(with_addresses(sys.argv[1:]))
    except KeyboardInterrupt as error:
        # While the commands were still loaded; from then on a command has its own end.
        raise SystemExit(INTERRUPTED) from error
    except OSError as error:
        from mlgo_gym.storage.cache import UNWRITABLE

        if error.errno not in UNWRITABLE:
            raise
        where = f"{error.filename}: " if error.filename else ""
        advice = "make room, or name a folder that can be written"
        print(visible(f"mlgo-gym: {where}{error.strerror}; {advice}"), file=sys.stderr)  # noqa: T201 - likewise below
        raise SystemExit(2) from error
    except RecursionError as error:
        message = "a folder or a file is nested more deeply than Python follows; leave it out"
        print(f"mlgo-gym: {message}", file=sys.stderr)  # noqa: T201 - likewise
        raise SystemExit(2) from error
    except MlgoError as error:
        print(f"mlgo-gym: {visible(str(error))}", file=sys.stderr)  # noqa: T201 - the command line's own error output
        raise SystemExit(2) from error


def _say_what_takes_long() -> None:
    """Print what the library tells, such as that a dataset has to be made first."""
    messages = logging.StreamHandler()
    messages.setFormatter(logging.Formatter("mlgo-gym: %(message)s"))
    log = logging.getLogger("mlgo_gym")
    log.addHandler(messages)
    log.setLevel(logging.INFO)
