"""The errors of mlgo-gym: a small tree with one root.

Every message says what was wanted, what was found and what to do about it.
"""

from __future__ import annotations


class MlgoError(Exception):
    """The root of every error that mlgo-gym raises on purpose.

    Attributes:
        env_id: the number of the environment that cannot go on, where a vector environment raises it; else None.
    """

    env_id: int | None = None


class MlgoWarning(UserWarning):
    """Something is done in a slower way than it was asked for, with the same result; the text says why."""


class ToolchainError(MlgoError):
    """No usable clang, or one that cannot do what was asked."""


class CorpusError(MlgoError):
    """A corpus, a module or a dataset that cannot be used as asked."""


class NoDecisionError(CorpusError):
    """A module or a function in which there is nothing to decide."""


class UntrustedError(CorpusError):
    """A corpus, or something else from a stranger, that asks for more than its purpose needs."""


class NothingCompiledError(CorpusError):
    """A build that ended without a compile that can be recorded.

    Attributes:
        status: its exit status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[type[NothingCompiledError], tuple[str, int]]:
        return type(self), (str(self), self.status)


class CorpusWarning(UserWarning):
    """Something about a corpus that its user may not expect."""


class UnreachableError(CorpusError):
    """Sources that cannot be fetched because nothing answers where they ought to be."""


class ActionError(MlgoError):
    """An action outside the action space, or an illegal one in a strict environment."""


class PolicyError(MlgoError):
    """A policy that cannot be found, loaded or used with the environment at hand."""


class UnknownArgumentError(MlgoError, TypeError):
    """An argument that an environment does not have; a `TypeError` too, as libraries that try arguments expect."""


class MissingExtraError(MlgoError):
    """An optional dependency is not installed; the text names the extra that brings it."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs the extra {extra!r}: pip install 'mlgo-gym[{extra}]'")


class SnapshotError(MlgoError):
    """A running clang that cannot be copied: not on this machine, or not in the state that it is in."""


class NotReproducedError(MlgoError):
    """Results that did not come out again; the text names the modules."""


class TrainingLogError(MlgoError):
    """A training log, or what came over a channel, breaks LLVM's format.

    `offset` is the position of the first offending byte, counted from the start of the log.
    """

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(f"{message} (at byte {offset})")
        self.message = message
        self.offset = offset

    def __reduce__(self) -> tuple[type[TrainingLogError], tuple[str, int]]:
        return type(self), (self.message, self.offset)


class CompilerError(MlgoError):
    """A compile that failed.

    Attributes:
        kind: `"exit"` (clang reported an error), `"signal"` (it crashed), `"timeout"` (a wait ran past its
            deadline), `"limit"` (it needed more memory, output or processor time than it may have), `"protocol"` (what
            it wrote is not the protocol), `"object"` (it ended well, and left no object file that can be measured), or
            `"start"` (it could not be started).
        exit_status: clang's exit status, negative for the number of a signal, None while it was running.
        stderr: the tail of what clang wrote to standard error.
        command: the command line, for running it again by hand.
        reproducer: the folder that has all it takes to see a crash again; None where nothing was kept.
    """

    reproducer: str | None = None
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
        # Gymnasium's AsyncVectorEnv makes a worker's error anew, by its type, of the error itself.
        if isinstance(message, CompilerError):
            kind, exit_status, stderr, command = message.kind, message.exit_status, message.stderr, message.command
            message = message.message
        super().__init__(f"{message}\n{stderr.rstrip()}" if stderr.strip() else message)
        self.message = message
        self.kind = kind
        self.exit_status = exit_status
        self.stderr = stderr
        self.command = command

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_compiler_error, (self.message, self.kind, self.exit_status, self.stderr, self.command)


def _rebuild_compiler_error(
    message: str, kind: str, exit_status: int | None, stderr: str, command: tuple[str, ...]
) -> CompilerError:
    return CompilerError(message, kind=kind, exit_status=exit_status, stderr=stderr, command=command)
