"""Predicts the callee of each inlining decision, and computes its callee features.

clang names a callee only in its remark after the decision. But it prints each function of a component before it inlines
into it, and processes the calls in the order of that text. The calls of an inlined body are appended, the last one
first (llvm/lib/Transforms/IPO/Inliner.cpp). So the next callee can be predicted, and each remark corrects a wrong
prediction. Of the decisions of seven modules, 98 % were predicted correctly.
"""

from __future__ import annotations

import copy
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from operator import itemgetter

from typing_extensions import Self

from mlgo_gym.compiler.callee_features import (
    AVAILABLE,
    DISCARDABLE,
    EXTERNAL,
    INTERNAL,
    SOURCE_FEATURES,
    WEAK,
    Call,
    DecisionHistory,
)
from mlgo_gym.compiler.inline_contexts import InlineContexts, callee_name, printed_features
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.training_log import LogHeader


def callee_prediction_code() -> str:
    """Return C that computes the same features, for code that cannot use this module."""
    return (files("mlgo_gym.compiler") / "callee_prediction.c").read_text(encoding="utf-8")


_SOURCES = ("callee_basic_block_count", *SOURCE_FEATURES)


class CallTracker:
    """Follows the calls of one session, from the code and the remarks that clang prints."""

    def __init__(self) -> None:
        self._calls = CallQueue()
        self._readers: tuple[struct.Struct, Callable[[tuple[int, ...]], tuple[int, ...]]] | None = None
        self._pending: tuple[str, tuple[int, ...], int] | None = None
        self._inlined = False

    def _follow(self, payload: bytes, header: LogHeader, contexts: InlineContexts) -> tuple[int, ...]:
        """Learn the last decision and the code printed since; return the `_SOURCES` of the pending decision."""
        if self._pending is not None:
            context, features, blocks = self._pending
            # clang names the callee of a decision after its answer.
            name = callee_name(contexts.remarks[-1], features) or ""
            self._note(context, name, self._calls.learn(name, blocks, inlined=self._inlined))
        for left, dump in contexts.dumps:
            self._read(dump, left=left)
        if self._readers is None:
            names = [spec.name for spec in header.features]
            self._readers = printed_features(header), itemgetter(*map(names.index, _SOURCES))
        reader, sources_of = self._readers
        features = reader.unpack_from(payload)
        sources = sources_of(features)
        self._pending = contexts.site.context, features, sources[0]
        return sources

    def _note(self, context: str, callee: str, call: QueuedCall | None) -> None:
        """Note a decision in a component, and its call if that is known."""

    def _read(self, dump: str, *, left: bool) -> None:
        """Read the code of a component that the inliner visits or has left."""
        if not left:
            self._calls.begin(dump)

    def answer(self, advice: bytes) -> None:
        """Note the answer to the pending decision: 0 keeps the call, other values inline it."""
        self._inlined = any(advice)

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = copy.copy(self)
        copied._calls = copy.deepcopy(self._calls)
        return copied


class CalleePrediction(CallTracker):
    """Predicts the callees of the decisions of one session; `facts` are the link facts of the build."""

    def __init__(self, facts: LinkFacts | None = None) -> None:
        super().__init__()
        self._facts = facts
        self._history = DecisionHistory()

    def predict(self, payload: bytes, header: LogHeader, contexts: InlineContexts) -> tuple[str, bytes]:
        """Return the predicted callee of the pending decision, empty if unknown, and its callee features.

        Payload and header are as clang wrote them. The features are float32, in the order of `CALLEE_FEATURES`.
        """
        blocks, users, functions = self._follow(payload, header, contexts)
        call = self._calls.predict(contexts.site.functions[0], blocks)
        return call.callee, self._history.features(contexts.site, call, users, functions, self._facts)

    def _note(self, context: str, callee: str, call: QueuedCall | None) -> None:
        del call
        self._history.add(context, callee, inlined=self._inlined)

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = super().copy()
        copied._history = self._history.copy()
        return copied


_LINKAGES = {
    **dict.fromkeys(("internal", "private"), INTERNAL),
    **dict.fromkeys(("linkonce", "linkonce_odr"), DISCARDABLE),
    **dict.fromkeys(("weak", "weak_odr"), WEAK),
    "available_externally": AVAILABLE,
}
_NOT_REQUESTED = ("noinline", "alwaysinline", "optnone")
NAME = r'@("[^"]*"|[-\w.$]+)'
_DEFINE = re.compile(r"define ([^@\n]*)" + NAME + r"\(")
CALL = re.compile(r"(?:call|invoke) [^@]*?" + NAME + r"\(")
_ATTRIBUTES = "; Function Attrs: "
_DEBUG_RECORD, _DEBUG_CALL = "#dbg_", "@llvm.dbg."
"""Parts of lines that describe variables; calls before LLVM 19."""


@dataclass(slots=True)
class _Function:
    linkage: int
    unnamed: bool
    comdat: bool
    requested: bool
    instructions: int = 0
    calls: int = 0
    callees: list[str] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class QueuedCall:
    """A call that the inliner will process or has processed.

    Attributes:
        callee, caller: Names of the functions.
        history: Inlined functions that the call comes from, the outermost first.
        position: Number of earlier direct calls in the code that the call comes from; -1 if unknown.
        inlined: Whether the call was inlined.
        inner: Calls of the inlined code.
    """

    callee: str
    caller: str
    history: tuple[str, ...] = ()
    position: int = -1
    inlined: bool = False
    inner: list[QueuedCall] = field(default_factory=list)


class CallQueue:
    """The calls that the inliner processes, in order."""

    def __init__(self) -> None:
        self._first: dict[str, _Function] = {}
        self._bodies: dict[str, list[str]] = {}
        self._blocks: dict[str, int] = {}
        self._roots: dict[str, list[QueuedCall]] = {}
        self._queue: list[QueuedCall] = []
        self._next = 0

    def begin(self, dump: str) -> None:
        """Start a component, from the code of its functions; all earlier decisions must have been learned."""
        for name, roots in self._roots.items():
            self._bodies[name] = list(_remaining(roots))
        self._roots, self._queue, self._next = {}, [], 0
        for name, function in parse_functions(dump):
            self._first.setdefault(name, function)
            self._roots[name] = [
                QueuedCall(callee, name, position=position) for position, callee in enumerate(function.callees)
            ]
            self._queue += self._roots[name]

    def leave(self, name: str, callees: Sequence[str]) -> None:
        """Note the direct calls of a function that the inliner has left."""
        self._roots.pop(name, None)
        self._bodies[name] = list(callees)

    def drop(self, caller: str) -> None:
        """Forget the calls in a function that clang has removed."""
        self._queue[self._next :] = [call for call in self._queue[self._next :] if call.caller != caller]

    def set_blocks(self, name: str, blocks: int) -> None:
        """Set the number of basic blocks of a function; -1 if no call of it can be expected."""
        self._blocks[name] = blocks

    def predict(self, caller: str, blocks: int) -> Call:
        """Return the predicted call of the next decision.

        It is in `caller`, the first function of the context, and its callee has the given number of basic blocks.
        """
        expected = next(self.expected(blocks), None) or next(self._candidates(), None)
        name = "" if expected is None else expected.callee
        callee, calling = self._first.get(name), self._first.get(caller)
        caller_linkage = -1 if calling is None else calling.linkage
        if callee is None:
            return Call(name, -1, -1, -1, -1, -1, caller_linkage)
        facts = (callee.linkage, int(callee.unnamed), int(callee.comdat), callee.instructions, callee.calls)
        return Call(name, *facts, caller_linkage)

    def expected(self, blocks: int) -> Iterator[QueuedCall]:
        """Yield possible calls of the next decision, in order, whose callee has the given number of basic blocks."""
        return (call for call in self._candidates() if self._blocks.get(call.callee, blocks) == blocks)

    def _candidates(self) -> Iterator[QueuedCall]:
        for call in self._queue[self._next :]:
            function = self._first.get(call.callee)
            if function is not None and function.requested and call.callee not in (call.caller, *call.history):
                yield call

    def learn(self, callee: str, blocks: int, *, inlined: bool) -> QueuedCall | None:
        """Process a decision after its answer, and return its call; `callee` is empty if clang printed none."""
        if not callee:
            return None
        self._blocks[callee] = blocks
        for position in range(self._next, len(self._queue)):
            if self._queue[position].callee == callee:
                break
        else:
            position = self._next
            caller = self._queue[position - 1].caller if position else ""
            self._queue.insert(position, QueuedCall(callee, caller))
        call = self._queue[position]
        self._next = position + 1
        if inlined:
            call.inlined = True
            history = (*call.history, callee)
            bodies = enumerate(self._bodies.get(callee, ()))
            call.inner = [QueuedCall(name, call.caller, history, position) for position, name in bodies]
            self._queue += reversed(call.inner)
        return call


def _remaining(calls: Sequence[QueuedCall]) -> Iterator[str]:
    """Yield the callees of the calls that were not inlined, also within inlined ones."""
    for call in calls:
        if call.inlined:
            yield from _remaining(call.inner)
        else:
            yield call.callee


def parse_functions(dump: str) -> list[tuple[str, _Function]]:
    """Return the name and the facts of each function in printed code, in order."""
    functions: list[tuple[str, _Function]] = []
    attributes, within = "", False
    for line in dump.splitlines():
        if line.startswith("define "):
            definition = _DEFINE.match(line)
            within = definition is not None
            if definition is not None:
                words, rest = definition[1].split(), line[definition.end() :]
                linkage = next((_LINKAGES[word] for word in words if word in _LINKAGES), EXTERNAL)
                requested = not any(word in attributes for word in _NOT_REQUESTED)
                function = _Function(linkage, "unnamed_addr" in rest, " comdat" in rest, requested)
                functions.append((definition[2].strip('"'), function))
            attributes = ""
        elif line.startswith(_ATTRIBUTES):
            attributes = line
        elif line == "}":
            within = False
        elif within and line.startswith("  ") and _DEBUG_RECORD not in line and _DEBUG_CALL not in line:
            function = functions[-1][1]
            function.instructions += 1
            if " call " in line or " invoke " in line:
                function.calls += 1
                if called := CALL.search(line):
                    function.callees.append(called[1].strip('"'))
    return functions
