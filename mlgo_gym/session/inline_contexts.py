"""In which function clang inlines, by what it says on standard error while it does.

The channel of the inlining advisor has no contexts. But clang prints the functions that the inliner is about to look
at, a strongly connected component of the call graph at a time, when it is asked for their code (`-print-before=inline`,
llvm/lib/Passes/StandardInstrumentations.cpp), and a remark with the callee after each decision (`-Rpass=inline-ml`,
llvm/lib/Analysis/MLInlineAdvisor.cpp). Of all that a released clang can say, from 17 on, this is the least text in
which both can be found.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.training_log import LogHeader

PLACE_FLAGS = ("-mllvm", "-print-before=inline")
"""The `-cc1` arguments that make clang say which functions the inliner is at; they change nothing that is compiled."""

FLAGS = (*PLACE_FLAGS, "-Rpass=inline-ml", "-Rpass-missed=inline-ml")
"""The same with the callee of each decision."""

_HIDING = ("filter-print-funcs", "ir-dump-directory")
"""Options that leave out some of what clang says, or have it written elsewhere (llvm/lib/IR/PrintPasses.cpp)."""

_BANNER = b"*** IR Dump Before InlinerPass on ("
_BANNER_END = b") ***\n"
_REMARK = b"remark: "
_LOCATION = re.compile(rb"[^\n]*?:\d+:\d+: ")
_CHOICES = (b"true", b"false")
_REMARKS = (b"=inline-ml]", b"-missed=inline-ml]")
_FUNCTION = rb"(?:\n?(?:; [^\n]*\n)*define [^\n]*\n)(?:(?!\}\n)[^\n]*\n)*\}\n"
_OWN_WORDS = re.compile(
    rb"(?:; )?\*\*\* IR Dump Before InlinerPass on [^\n]*\n(?:" + _FUNCTION + rb")*"
    rb"|[^\n]*remark: [^\n]*=inline-ml\]\n"
)
_CUT_OFF = re.compile(rb"\A(?:(?!\}\n)[^\n]*\n)*\}\n(?:" + _FUNCTION + rb")*")


class InlineSite(NamedTuple):
    """Where a decision stands: what stays the same when decisions elsewhere are made otherwise.

    Attributes:
        component: the names of the functions that clang looks at together, in the order of the alphabet, separated by
            `", "`: mostly one, several where they call each other. Of more than ten clang names ten.
        visit: how often clang had come to this component before.
        position: the number of the decision within this visit.
    """

    component: str
    visit: int
    position: int


class InlineContexts:
    """Follows what clang says on standard error.

    Attributes:
        site: the decision that clang waits with, after `ask()`.
        remarks: what clang remarked after each decision but the last, in order: `callee()` reads it.
    """

    def __init__(self) -> None:
        self._before = b""
        self.site = InlineSite("", 0, -1)
        self.remarks: list[bytes] = []
        self._visits: dict[str, int] = {}
        self._said: list[bytes] = []

    def feed(self, data: bytes) -> None:
        """Take the next bytes of standard error."""
        self._said.append(data)

    def ask(self) -> InlineSite:
        """Note that clang waits with the next decision, and return its place; all that it said before must be fed."""
        said = self._take()
        start = said.find(_BANNER)
        self._before = said
        component, visit, position = self.site
        if position >= 0:
            self.remarks.append(_remarks(said if start < 0 else said[:start]))
        while start >= 0:
            start += len(_BANNER)
            names = said[start : said.index(_BANNER_END, start)].decode(errors="surrogateescape")
            component = ", ".join(sorted(names.split(", "))) if ", " in names else names
            visit, position = self._visits.get(component, -1) + 1, -1
            self._visits[component] = visit
            start = said.find(_BANNER, start)
        self.site = InlineSite(component, visit, position + 1)
        return self.site

    @property
    def dumps(self) -> list[str]:
        """The code of each component that the inliner came to between the last two decisions."""
        return [dump.decode(errors="surrogateescape") for dump in self._before.split(_BANNER)[1:]]

    def end(self) -> None:
        """Note that clang has ended, and so what it remarked after its last decision."""
        said = self._take()
        if self.site.position >= 0:
            start = said.find(_BANNER)
            self.remarks.append(_remarks(said if start < 0 else said[:start]))

    def _take(self) -> bytes:
        said = b"".join(self._said)
        self._said.clear()
        return said

    def copy(self) -> InlineContexts:
        """Return a copy that goes on by itself."""
        twin = copy.copy(self)
        twin._visits, twin._said, twin.remarks = self._visits.copy(), self._said.copy(), self.remarks.copy()
        return twin


def feature_starts(header: LogHeader) -> list[int]:
    """Return where each feature begins in the bytes of an observation."""
    ends = list(accumulate(spec.nbytes for spec in header.features))
    return [end - spec.nbytes for end, spec in zip(ends, header.features, strict=True)]


def as_said(payload: bytes, starts: Sequence[int]) -> list[int]:
    """Return the features of a decision as clang says them: of an embedding the first eight bytes, as a number.

    Args:
        payload: the bytes of the observation.
        starts: its `feature_starts()`.
    """
    return [int.from_bytes(payload[start : start + 8], "little", signed=True) for start in starts]


def callee(remarks: bytes, features: Sequence[int]) -> str | None:
    """Return the name of the function that a decision was about; None where clang did not say.

    Args:
        remarks: what clang remarked after the decision.
        features: the features of the decision, `as_said()`; clang says them behind the name, with nothing between, but
            for the last, which is its own choice.
    """
    # Calls that must be inlined are remarked upon as well, without features of a question.
    for remark in remarks.splitlines():
        for known in (features[:-1], features):
            numbers = "".join(map(str, known)).encode()
            if remark.endswith(numbers) and len(remark) > len(numbers):
                return remark[: -len(numbers)].decode(errors="surrogateescape")
    return None


def refuse_hiding(command: Sequence[str]) -> None:
    """Refuse a command line on which clang would not say of all functions when the inliner is at them.

    Raises:
        MlgoError: one of its options is of that kind.
    """
    for word in command:
        if word.lstrip("-").startswith(_HIDING):
            raise MlgoError(
                f"clang is to say on standard error at which functions its inliner is, and {word} keeps some of that "
                "back: remove the flag, or leave out contexts, credit and the scope of a function"
            )


def _remarks(said: bytes) -> bytes:
    """Return what is remarked in some text, a line each, without what is the same in all."""
    found: list[bytes] = []
    start = said.find(_REMARK)
    while start >= 0:
        start += len(_REMARK)
        end = said.find(b"\n", start)
        line = said[start : len(said) if end < 0 else end]
        remark, _, name = line.rpartition(b" [-Rpass")
        for choice in _CHOICES:
            if name in _REMARKS and remark.endswith(choice):
                location = _LOCATION.match(remark)
                found.append(remark[0 if location is None else location.end() : -len(choice)])
        start = said.find(_REMARK, start + len(line))
    return b"\n".join(found)


def without_own_words(said: bytes, *, cut_off: bool = False) -> bytes:
    """Return what clang said, without what `FLAGS` made it say.

    Args:
        said: some of what it said.
        cut_off: whether that begins anywhere, and so perhaps within the code of a function.
    """
    if cut_off:
        said = _CUT_OFF.sub(b"", said, count=1)
    return _OWN_WORDS.sub(b"", said)
