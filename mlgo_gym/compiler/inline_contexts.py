"""Contexts of inlining decisions, from clang's standard error.

The channel of the inlining advisor has no contexts. With `-print-before=inline`
(llvm/lib/Passes/StandardInstrumentations.cpp) clang prints the functions of each strongly connected component of the
call graph before the inliner visits it. With `-Rpass=inline-ml` (llvm/lib/Analysis/MLInlineAdvisor.cpp) it prints a
remark with the callee after each decision. No other output of clang 17 to 22 contains both in less text.
"""

from __future__ import annotations

import copy
import re
import struct
from collections.abc import Sequence

from mlgo_clang.advisors import PRINTING, REMARKS
from mlgo_gym.compiler.callee_features import CALLEE_FEATURES
from mlgo_gym.compiler.decision import DecisionSite, context_of, functions_of
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.training_log import LogHeader

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


def printed_features(header: LogHeader) -> struct.Struct:
    """Return the reader of clang's features as clang prints them: of an embedding its first 8 bytes as int64."""
    specs = (spec for spec in header.features if spec.name not in CALLEE_FEATURES)
    return struct.Struct("<" + "".join(f"q{spec.nbytes - 8}x" for spec in specs))


def callee_name(remarks: bytes, features: Sequence[int]) -> str | None:
    """Return the name of a decision's callee from the remarks after it; None if clang printed none.

    clang prints the `printed_features()` directly after the name, without the last one, its own choice.
    """
    # Calls that must be inlined have remarks too, without features.
    for remark in remarks.splitlines():
        for printed in (features[:-1], features):
            numbers = b"%d" * len(printed) % tuple(printed)
            if remark.endswith(numbers) and len(remark) > len(numbers):
                return remark[: -len(numbers)].decode(errors="surrogateescape")
    return None


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
