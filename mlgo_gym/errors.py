"""The errors of mlgo-gym: a small tree with one root.

Messages have the form "expected X, got Y; do Z".
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from gymnasium.error import InvalidAction, ResetNeeded

from mlgo_clang.errors import MlgoError as MlgoError
from mlgo_clang.errors import PolicyError as PolicyError


def did_you_mean(value: str, names: Iterable[str]) -> str:
    """Return `; did you mean …?` with the name that is closest to a value, or an empty text."""
    close = get_close_matches(value, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


class MlgoWarning(UserWarning):
    """A slower way is taken with the same result; the text gives the reason."""


class ToolchainError(MlgoError):
    """No usable clang, or a clang without a required capability."""


class CorpusError(MlgoError):
    """An unusable corpus, module or dataset."""


class NoDecisionError(CorpusError):
    """A module or a function without a decision."""


class UntrustedError(CorpusError):
    """Untrusted input, such as a corpus, that requests more than its purpose needs."""


class NothingCompiledError(CorpusError):
    """A build without a compile that can be recorded.

    Attributes:
        status: Exit status of the build.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class CorpusWarning(UserWarning):
    """A property of a corpus that its user may not expect."""


class UnreachableError(CorpusError):
    """Sources that cannot be fetched because their host does not answer."""


class ActionError(MlgoError, InvalidAction):
    """NaN, no action at all, or an illegal action without `strict=False`."""


class NoEpisodeError(ActionError, ResetNeeded):
    """A call that needs a pending decision or a started episode: `reset()` comes first."""


class UnknownArgumentError(MlgoError, TypeError):
    """An unknown argument of an environment. Libraries that try arguments expect a `TypeError`."""

    def __init__(self, message: str) -> None:
        # `gymnasium.make` raises a TypeError again, with all arguments in its text.
        super().__init__(message.partition(" was raised from the environment creator ")[0])


class MissingExtraError(MlgoError):
    """A missing optional dependency; the text names the extra that installs it."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra {extra!r}; in a clone of mlgo-gym: pip install '.[{extra}]'")


class SnapshotError(MlgoError):
    """A running clang that cannot be copied on this machine or in its state."""


class CompilerError(MlgoError):
    """A compile that failed.

    Attributes:
        kind: The cause. `"exit"`: clang reported an error. `"signal"`: clang crashed. `"timeout"`: a wait passed its
            deadline, or clang exceeded its limit of CPU time. `"limit"`: clang exceeded its limit of memory or output.
            `"protocol"`: clang broke the protocol. `"object"`: clang left no object file that can be measured.
            `"start"`: clang did not start. `"program"`: a program cannot be linked, fails, or prints another output
            than expected.
        exit_status: Clang's exit status; negative for a signal, None while clang runs.
        stderr: The tail of clang's standard error.
        command: The command line, for a run by hand.
    """

    message: str
    kind: str
    exit_status: int | None
    stderr: str
    command: tuple[str, ...]

    def __init__(
        self,
        message: str | CompilerError,
        *,
        kind: str = "exit",
        exit_status: int | None = None,
        stderr: str = "",
        command: tuple[str, ...] = (),
    ) -> None:
        # Gymnasium's AsyncVectorEnv constructs a worker's error from its type and the error itself.
        if isinstance(message, CompilerError):
            kind, exit_status, stderr, command = message.kind, message.exit_status, message.stderr, message.command
            message = message.message
        super().__init__(f"{message}\n{stderr.rstrip()}" if stderr.strip() else message)
        self.message = message
        self.kind = kind
        self.exit_status = exit_status
        self.stderr = stderr
        self.command = command
