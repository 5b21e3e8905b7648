"""The errors of a session whose clang fails, is silent, or violates the protocol."""

from __future__ import annotations

from mlgo_gym.compiler.process.limits import Limits
from mlgo_gym.compiler.process.process import CompilerProcess, describe_exit
from mlgo_gym.compiler.protocol.channel import Channel
from mlgo_gym.compiler.protocol.standard_error import StandardError
from mlgo_gym.errors import CompilerError


class SessionErrors:
    """What a session knows of its clang, as an error.

    Attributes:
        command: Command line.
        limits: Limits of the compile.
    """

    command: tuple[str, ...]
    limits: Limits
    _process: CompilerProcess | None
    _stderr: StandardError
    _unread: Channel | None

    @property
    def stderr(self) -> str:
        """Tail of clang's standard error so far."""
        return self._stderr.text

    def failure(self) -> CompilerError:
        """Return the error of a clang that failed, with the tail of standard error."""
        assert self._process is not None
        if self._unread is not None:
            return self._protocol_error(self._unread, "it requests decisions and reads no answers; it was killed")
        exceeded = self.limits.exceeded(self._process.exit_status, self.stderr)
        return self._error("limit", exceeded) if exceeded else self._error(*describe_exit(self._process.exit_status))

    def _protocol_error(self, channel: Channel, problem: str) -> CompilerError:
        return self._error("protocol", f"clang violated the protocol of the {channel.advisor.name} advisor: {problem}")

    def _error(self, kind: str, message: str) -> CompilerError:
        status = self._process.exit_status if self._process is not None else None
        return CompilerError(message, kind=kind, exit_status=status, stderr=self.stderr, command=self.command)
