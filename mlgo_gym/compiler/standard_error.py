"""Clang's standard error: its tail, and the contexts and callees of inlining decisions.

The channel of the inlining advisor has no contexts. With `-print-before=inline`
(llvm/lib/Passes/StandardInstrumentations.cpp) clang prints the functions of each strongly connected component of the
call graph before the inliner visits it. With `-Rpass=inline-ml` (llvm/lib/Analysis/MLInlineAdvisor.cpp) it prints a
remark with the callee after each decision. No other output of clang 17 to 22 contains both in less text.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlgo_clang.channel import PRINTING, REMARKS
from mlgo_gym.compiler.decision import Decision, DecisionSite, context_of, functions_of
from mlgo_gym.errors import MlgoError, ToolchainError

if TYPE_CHECKING:
    from mlgo_gym.compiler.callee_features import CalleePrediction
    from mlgo_gym.compiler.connection import Connection
    from mlgo_gym.compiler.decision_code import DecisionCode

CONTEXT_FLAGS = ("-mllvm", *PRINTING)
"""The `-cc1` arguments that print the functions that the inliner visits; they do not change the object."""

CALLEE_FLAGS = (*CONTEXT_FLAGS, *REMARKS)
"""The same, with the callee of each decision."""

CODE_FLAGS = (*CALLEE_FLAGS, "-mllvm", "-print-before=coro-split")
"""The same, with the simplified code of each function after the inliner has left it."""

SIZE_LIMIT_FLAGS = (REMARKS[1], "-fno-caret-diagnostics")
SIZE_LIMITED = b"because module size grew too much"
"""The `-cc1` arguments for a remark at each call that the advisor keeps because of its size limit, and its text."""

_FILTERS = ("filter-print-funcs", "ir-dump-directory")
"""Options that filter or redirect this output (llvm/lib/IR/PrintPasses.cpp)."""

_BANNER = b"*** IR Dump Before InlinerPass on ("
_BANNER_END = b") ***\n"
_LEFT_BANNER = b"*** IR Dump Before CoroSplitPass on ("
_BANNERS = re.compile(b"(" + re.escape(_BANNER) + b"|" + re.escape(_LEFT_BANNER) + b")")
_REMARK = b"remark: "
_CHOICE = re.compile(rb"(?:[^\n]*?:\d+:\d+: )?(.*)(?:true|false) \[-Rpass(?:-missed)?=inline-ml\]")
_FUNCTION = rb"(?:\n?(?:; [^\n]*\n)*define [^\n]*\n)(?:(?!\}\n)[^\n]*\n)*\}\n"
_CONTEXT_OUTPUT = re.compile(
    rb"(?:; )?\*\*\* IR Dump Before (?:Inliner|CoroSplit)Pass on [^\n]*\n(?:" + _FUNCTION + rb")*"
    rb"|[^\n]*remark: [^\n]*=inline-ml\]\n"
)
_PARTIAL_FUNCTION = re.compile(rb"\A(?:(?!\}\n)[^\n]*\n)*\}\n(?:" + _FUNCTION + rb")*")


class InlineContexts:
    """Tracks the site of each decision from clang's standard error.

    Attributes:
        site: Site of the pending decision, after `next_site()`.
        remarks: Remarks after each decision except the pending one, in order, for `callee_name()`.
    """

    def __init__(self) -> None:
        self._before = b""
        self.site = DecisionSite("", 0, -1)
        self.remarks: list[bytes] = []
        self._visits: dict[str, int] = {}
        self._unread: list[bytes] = []

    def feed(self, data: bytes) -> None:
        """Add bytes of standard error."""
        self._unread.append(data)

    def next_site(self) -> DecisionSite:
        """Return the site of the next decision; all output before it must have been fed."""
        text, start = self.end()
        self._before = text
        context, visit, index = self.site
        while start >= 0:
            start += len(_BANNER)
            printed = text[start : text.index(_BANNER_END, start)].decode(errors="surrogateescape")
            context = context_of(functions_of(printed))
            visit, index = self._visits.get(context, -1) + 1, -1
            self._visits[context] = visit
            start = text.find(_BANNER, start)
        self.site = DecisionSite(context, visit, index + 1)
        return self.site

    @property
    def dumps(self) -> list[tuple[bool, str]]:
        """The code of each component between the last two decisions: before a visit (False), or after it (True)."""
        pieces = _BANNERS.split(self._before)
        return [
            (banner == _LEFT_BANNER, dump.decode(errors="surrogateescape"))
            for banner, dump in zip(pieces[1::2], pieces[2::2], strict=True)
        ]

    def end(self) -> tuple[bytes, int]:
        """Keep the remarks in the unread text; return the text and the position of the next context, or -1."""
        text = b"".join(self._unread)
        self._unread.clear()
        start = text.find(_BANNER)
        if self.site.index >= 0:
            self.remarks.append(_remarks(text if start < 0 else text[:start]))
        return text, start

    def copy(self) -> InlineContexts:
        """Return an independent copy."""
        copied = copy.copy(self)
        copied._visits, copied._unread, copied.remarks = self._visits.copy(), self._unread.copy(), self.remarks.copy()
        return copied


def check_command(command: Sequence[str]) -> None:
    """Raise `MlgoError` if a command line has an option that filters or redirects the output for contexts."""
    for word in command:
        if word.lstrip("-").startswith(_FILTERS):
            raise MlgoError(
                f"expected flags that let clang print every function before inlining, got {word!r}; remove it, or use "
                "no callee features and no credit"
            )


def _remarks(text: bytes) -> bytes:
    """Return the remarks in a text, one per line, without location, choice and option name."""
    remarks: list[bytes] = []
    start = text.find(_REMARK)
    while start >= 0:
        start += len(_REMARK)
        end = text.find(b"\n", start)
        line = text[start : len(text) if end < 0 else end]
        if (remark := _CHOICE.fullmatch(line)) is not None:
            remarks.append(remark[1])
        start = text.find(_REMARK, start + len(line))
    return b"\n".join(remarks)


def strip_context_output(text: bytes, *, partial: bool = False) -> bytes:
    """Return clang's output without that of `CALLEE_FLAGS`; `partial` output may begin within a function's code."""
    if partial:
        text = _PARTIAL_FUNCTION.sub(b"", text, count=1)
    return _CONTEXT_OUTPUT.sub(b"", text)


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
