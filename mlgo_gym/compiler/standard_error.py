"""Clang's standard error: its tail without the output about inlining, and each inlining decision as it shows it."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlgo_gym.compiler.decision import Decision, DecisionSite
from mlgo_gym.compiler.inlining_output import CONTEXT_FLAGS, InliningOutput
from mlgo_gym.errors import MlgoError, ToolchainError

if TYPE_CHECKING:
    from mlgo_gym.compiler.decision_code import DecisionCode
    from mlgo_gym.llvm.training_log import LogHeader

_FILTERS = ("filter-print-funcs", "ir-dump-directory")
"""Options that filter or redirect this output (llvm/lib/IR/PrintPasses.cpp)."""


def check_command(command: Sequence[str]) -> None:
    """Raise `MlgoError` if a command line has an option that filters or redirects the output for contexts."""
    for word in command:
        if word.lstrip("-").startswith(_FILTERS):
            raise MlgoError(
                f"expected flags that let clang print every function before inlining, got {word!r}; remove it, or use "
                "no callee features and no credit"
            )


TAIL_BYTES = 64 * 1024
"""Size of the tail."""

_MAX_TAIL_BYTES = 4 * TAIL_BYTES
"""Size at which pieces before the tail are dropped; dropping them with every piece would copy the tail each time."""

_MAX_FILE_BYTES = 1 << 22
"""Size at which the file of standard error is truncated."""

_READ_SIZE = 1 << 16


class StandardError:
    """Reader of standard error, which is a pipe without contexts, and a file with them.

    Args:
        inlining: Reader of the output about inlining; None for no contexts.
        predicts: Whether decisions have callee features; requires `inlining`.
        code: Follows the code at decisions; requires `inlining`. None for no code.

    Attributes:
        marker: Bytes to search for since `capture()`; empty if none.
    """

    def __init__(self, inlining: InliningOutput | None, *, predicts: bool, code: DecisionCode | None) -> None:
        self.inlining, self.predicts, self.code = inlining, predicts, code
        self.marker = b""
        self._captured = b""
        self._pieces: list[bytes] = []
        self._unread_code: list[bytes] = []
        self._size = 0
        self._position = 0

    def read(self, descriptor: int) -> bool:
        """Read the available output; return whether clang has closed a pipe."""
        if self.inlining is not None:
            while data := os.pread(descriptor, _READ_SIZE, self._position):
                self._position += len(data)
                self._keep(data)
                if len(data) < _READ_SIZE:
                    break
            return False
        try:
            while data := os.read(descriptor, _READ_SIZE):
                self._keep(data)
        except BlockingIOError:
            return False
        return True

    def _keep(self, data: bytes) -> None:
        if self.marker:
            self._captured += data
        if self.code is not None:
            self._unread_code.append(data)
        if self.inlining is not None:
            self.inlining.read(data)
            data = self.inlining.messages()
        self._pieces.append(data)
        self._size += len(data)
        if self._size > _MAX_TAIL_BYTES:
            self._pieces = [self._tail()]
            self._size = len(self._pieces[0])

    def _tail(self) -> bytes:
        return b"".join(self._pieces)[-TAIL_BYTES:]

    def capture(self, marker: bytes) -> None:
        """Keep everything from now on, and search for a marker in it; an empty marker ends that."""
        self.marker, self._captured = marker, b""

    @property
    def captured(self) -> str:
        """Everything since `capture()`."""
        return self._captured.decode(errors="replace")

    @property
    def marker_seen(self) -> bool:
        """Whether the marker was found."""
        return bool(self.marker) and self.marker in self._captured

    @property
    def text(self) -> str:
        """Tail of the output, without the code and remarks of the inliner."""
        unfinished = b"" if self.inlining is None else self.inlining.unfinished
        return (self._tail() + unfinished).decode(errors="replace")

    def answer(self, advice: bytes) -> None:
        """Note the answer to the pending decision."""
        if self.inlining is not None:
            self.inlining.answer(advice)
        if self.code is not None:
            self.code.answer(advice)

    def locate(self, decision: Decision, header: LogHeader, descriptor: int) -> Decision:
        """Return a pending inlining decision with its site, predicted callee and code; all output must have been read.

        Raises:
            ToolchainError: clang has not printed the functions that it inlines into.
        """
        assert self.inlining is not None
        if self._position > _MAX_FILE_BYTES:
            # clang waits for the answer, and prints nothing before.
            os.ftruncate(descriptor, 0)
            self._position = 0
        printed = self.inlining.next_decision(decision.payload, header)
        if printed is None:
            raise ToolchainError(
                f"expected a clang that prints functions before inlining ({' '.join(CONTEXT_FLAGS)}), got one that "
                "does not, by its build or its flags; use another clang, or no callee features and no credit"
            )
        site = DecisionSite(*printed[:3])
        if self.code is not None:
            self.code.advance(b"".join(self._unread_code), decision.payload, header, site.functions)
            self._unread_code.clear()
        if not self.predicts:
            return Decision(decision.advisor, site, decision.payload, None, self.code)
        return Decision(decision.advisor, site, decision.payload + printed.features, printed.callee, self.code)

    def copy(self) -> StandardError:
        """Return a copy for a copied clang, whose file is empty."""
        copied = copy.copy(self)
        copied.inlining = None if self.inlining is None else self.inlining.copy()
        copied.code = None if self.code is None else self.code.copy()
        copied._pieces, copied._unread_code, copied._position = self._pieces.copy(), self._unread_code.copy(), 0
        return copied
