"""Reads clang's standard error: keeps the tail, and tracks contexts and callees of decisions."""

from __future__ import annotations

import copy
import os

from mlgo_gym.compiler.callee_prediction import CalleePrediction
from mlgo_gym.compiler.connection import Connection
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.decision_code import DecisionCode
from mlgo_gym.compiler.inline_contexts import CONTEXT_FLAGS, SIZE_LIMITED, InlineContexts, strip_context_output
from mlgo_gym.errors import ToolchainError

TAIL_BYTES = 64 * 1024
"""Size of the tail."""

_MAX_TAIL_BYTES = 4 * TAIL_BYTES
"""Size at which pieces before the tail are dropped; dropping them with every piece would copy the tail each time."""

_MAX_FILE_BYTES = 1 << 22
"""Size at which the file of standard error is truncated."""

_READ_SIZE = 1 << 16


class StandardError:
    """Reader of standard error, a pipe or a file.

    Attributes:
        contexts: Tracks the contexts of decisions; None for no contexts.
        prediction: Predicts the callees of decisions; requires `contexts`. None for no prediction.
        code: Follows the code at decisions; requires `contexts`. None for no code.
        marker: Bytes to search for since `capture()`; empty if none.
        has_remarks: Whether clang prints remarks of the inlining advisor, which are no part of `text`.
        size_limited: Whether a remark says that the inlining advisor reached its size limit.
    """

    def __init__(
        self,
        contexts: InlineContexts | None,
        prediction: CalleePrediction | None = None,
        code: DecisionCode | None = None,
    ) -> None:
        self.contexts = contexts
        self.prediction = prediction
        self.code = code
        self.marker = b""
        self.has_remarks = False
        self.size_limited = False
        self._captured = b""
        self._pieces: list[bytes] = []
        self._size = 0
        self._position = 0

    def read(self, connection: Connection) -> bool:
        """Read the available output; return whether clang has closed a pipe."""
        descriptor = connection.stderr
        if connection.stderr_is_file:
            while data := os.pread(descriptor, _READ_SIZE, self._position):
                self._position += len(data)
                self._keep(data)
                if self.contexts is not None:
                    self.contexts.feed(data)
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
        # A remark may be in two pieces.
        end = self._pieces[-1][-len(SIZE_LIMITED) :] if self._pieces else b""
        self.size_limited = self.size_limited or SIZE_LIMITED in end + data
        self._pieces.append(data)
        self._size += len(data)
        if self._size > _MAX_TAIL_BYTES:
            self._pieces = [self._tail()]
            self._size = len(self._pieces[0])
        if self.marker:
            self._captured += data

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
        tail = self._tail()
        if self.contexts is not None or self.has_remarks:
            is_partial = self.contexts is not None and len(tail) == TAIL_BYTES
            tail = strip_context_output(tail, partial=is_partial)
        return tail.decode(errors="replace")

    def locate(self, decision: Decision, connection: Connection) -> Decision:
        """Return a pending inlining decision with its site, predicted callee and code; all output must have been read.

        Raises:
            ToolchainError: clang has not printed the functions that it inlines into.
        """
        assert self.contexts is not None
        if self._position > _MAX_FILE_BYTES:
            # clang waits for the answer, and prints nothing before.
            os.ftruncate(connection.stderr, 0)
            self._position = 0
        site = self.contexts.next_site()
        if not site.context:
            raise ToolchainError(
                f"expected a clang that prints functions before inlining ({' '.join(CONTEXT_FLAGS)}), got one that "
                "does not, by its build or its flags; use another clang, or no callee features and no credit"
            )
        header = connection.channels[decision.advisor].decoder.header
        callee, features = None, b""
        if self.prediction is not None and header is not None:
            callee, features = self.prediction.predict(decision.payload, header, self.contexts)
        if self.code is not None and header is not None:
            self.code.advance(decision.payload, header, self.contexts)
        return Decision(decision.advisor, site, decision.payload + features, callee, self.code)

    def copy(self) -> StandardError:
        """Return a copy for a copied clang, whose file is empty."""
        copied = copy.copy(self)
        copied.contexts = None if self.contexts is None else self.contexts.copy()
        copied.prediction = None if self.prediction is None else self.prediction.copy()
        copied.code = None if self.code is None else self.code.copy()
        copied._pieces, copied._position = self._pieces.copy(), 0
        return copied
