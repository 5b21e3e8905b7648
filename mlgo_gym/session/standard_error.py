"""Our end of a clang's standard error: reads what it says, keeps the end of it, and follows its decisions by it."""

from __future__ import annotations

import os

from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.training_log import LogHeader
from mlgo_gym.session.connection import Connection
from mlgo_gym.session.foretelling import Foretelling
from mlgo_gym.session.inline_calls import Call
from mlgo_gym.session.inline_contexts import PLACE_FLAGS, InlineContexts, InlineSite, without_own_words
from mlgo_gym.session.stderr_tail import KEPT_BYTES, StderrTail

_READ_SIZE = 1 << 16

_LONGEST_FILE = 1 << 22
"""How much of what clang says is left lying in memory."""


class StandardError:
    """Takes in what comes on standard error, a pipe or a file.

    Args:
        contexts: what follows by it in which functions clang inlines; None where that is not wanted.
        foretelling: what foretells by these which call each decision is about; None where that is not wanted.

    Attributes:
        contexts: as given.
        tail: the end of what was said.
    """

    def __init__(self, contexts: InlineContexts | None, foretelling: Foretelling | None = None) -> None:
        self.contexts = contexts
        self._foretelling = foretelling
        self.tail = StderrTail()
        self._position = 0

    def read(self, connection: Connection) -> bool:
        """Read what clang has said; return whether it has closed its end, after which it says no more."""
        descriptor = connection.stderr
        if connection.stderr_is_file:
            while data := os.pread(descriptor, _READ_SIZE, self._position):
                self._position += len(data)
                self.tail.feed(data)
                if self.contexts is not None:
                    self.contexts.feed(data)
                if len(data) < _READ_SIZE:
                    break
            return False
        try:
            while data := os.read(descriptor, _READ_SIZE):
                self.tail.feed(data)
        except BlockingIOError:
            return False
        return True

    def site(self, connection: Connection) -> InlineSite:
        """Return the place of the inlining decision that clang waits with; all that it has said must be read.

        Raises:
            ToolchainError: clang has not said where it inlines.
        """
        assert self.contexts is not None
        if self._position > _LONGEST_FILE:
            # clang waits, and says nothing before it is answered.
            os.ftruncate(connection.stderr, 0)
            self._position = 0
        site = self.contexts.ask()
        if not site.component:
            raise ToolchainError(
                f"clang was to print the functions that its inliner is at ({' '.join(PLACE_FLAGS)}) before its first "
                "question, and did not: this build, or one of its flags, leaves that out; use another clang, or leave "
                "out contexts, credit and the scope of a function"
            )
        return site

    def call(self, payload: bytes, header: LogHeader | None) -> Call | None:
        """Return the call that the decision whose `site()` was asked for is probably about; None: nobody foretells it.

        Args:
            payload: the features of the decision.
            header: the advisor's.
        """
        if self._foretelling is None or self.contexts is None or header is None:
            return None
        return self._foretelling.ask(payload, header, self.contexts)

    def answered(self, advice: bytes) -> None:
        """Note the answer to the decision that clang waits with."""
        if self._foretelling is not None:
            self._foretelling.answer(advice)

    @property
    def text(self) -> str:
        """The end of what clang has said, without what it was made to say to be followed."""
        if self.contexts is None:
            return self.tail.text
        end = self.tail.end
        return without_own_words(end, cut_off=len(end) == KEPT_BYTES).decode(errors="replace")

    def copy(self) -> StandardError:
        """Return a copy for a connection of its own, whose file is empty."""
        foretelling = None if self._foretelling is None else self._foretelling.copy()
        twin = StandardError(None if self.contexts is None else self.contexts.copy(), foretelling)
        twin.tail = self.tail.copy()
        return twin
