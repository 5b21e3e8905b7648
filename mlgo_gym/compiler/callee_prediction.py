"""Predicts the callee of each inlining decision, and computes its callee features.

clang names a callee only in its remark after the decision. But it prints each function of a component before it inlines
into it, and processes the calls in the order of that text. The calls of an inlined body are appended, the last one
first (llvm/lib/Transforms/IPO/Inliner.cpp). So the next callee can be predicted, and each remark corrects a wrong
prediction. Of the decisions of seven modules, 98 % were predicted correctly.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

import numpy as np

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
from mlgo_gym.compiler.inline_contexts import InlineContexts, callee_name, feature_offsets, printed_features
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.training_log import LogHeader


def callee_prediction_code() -> str:
    """Return C that computes the same features, for code that cannot use this module."""
    return (files("mlgo_gym.compiler") / "callee_prediction.c").read_text(encoding="utf-8")


class CalleePrediction:
    """Predicts the callees of the decisions of one session; `facts` are the link facts of the build."""

    def __init__(self, facts: LinkFacts | None = None) -> None:
        self._facts = facts
        self._calls = CallQueue()
        self._history = DecisionHistory()
        self._offsets: list[int] = []
        self._pending: tuple[str, list[int], int] | None = None
        self._inlined = False

    def predict(self, payload: bytes, header: LogHeader, contexts: InlineContexts) -> tuple[str, bytes]:
        """Return the predicted callee of the pending decision, empty if unknown, and its callee features.

        Payload and header are as clang wrote them. The features are float32, in the order of `CALLEE_FEATURES`.
        """
        if self._pending is not None:
            context, features, blocks = self._pending
            # clang names the callee of a decision after its answer.
            name = callee_name(contexts.remarks[-1], features) or ""
            self._calls.learn(name, blocks, inlined=self._inlined)
            self._history.add(context, name, inlined=self._inlined)
        for dump in contexts.dumps:
            self._calls.begin(dump)
        record = np.frombuffer(payload, header.dtype, 1)[0]
        blocks = int(record["callee_basic_block_count"][0])
        self._offsets = self._offsets or feature_offsets(header)
        self._pending = contexts.site.context, printed_features(payload, self._offsets), blocks
        call = self._calls.predict(contexts.site.functions[0], blocks)
        users, functions = (float(record[name][0]) for name in SOURCE_FEATURES)
        return call.callee, self._history.features(contexts.site, call, users, functions, self._facts).tobytes()

    def answer(self, advice: bytes) -> None:
        """Note the answer to the pending decision: 0 keeps the call, other values inline it."""
        self._inlined = any(advice)

    def copy(self) -> CalleePrediction:
        """Return an independent copy."""
        copied = copy.copy(self)
        copied._calls, copied._history = copy.deepcopy(self._calls), self._history.copy()
        return copied


_LINKAGES = {
    **dict.fromkeys(("internal", "private"), INTERNAL),
    **dict.fromkeys(("linkonce", "linkonce_odr"), DISCARDABLE),
    **dict.fromkeys(("weak", "weak_odr"), WEAK),
    "available_externally": AVAILABLE,
}
_NOT_REQUESTED = ("noinline", "alwaysinline", "optnone")
_NAME = r'@("[^"]*"|[-\w.$]+)'
_DEFINE = re.compile(r"define ([^@\n]*)" + _NAME + r"\(")
_CALL = re.compile(r"(?:call|invoke) [^@]*?" + _NAME + r"\(")
_ATTRIBUTES = "; Function Attrs: "
_DEBUGGING = ("#dbg_", "@llvm.dbg.")
"""Parts of lines that describe variables: debug records, or calls before LLVM 19."""


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
class _Queued:
    """A call that the inliner will process or has processed."""

    callee: str
    caller: str
    history: tuple[str, ...] = ()
    inlined: bool = False
    inner: list[_Queued] = field(default_factory=list)


class CallQueue:
    """The calls that the inliner processes, in order."""

    def __init__(self) -> None:
        self._first: dict[str, _Function] = {}
        self._bodies: dict[str, list[str]] = {}
        self._blocks: dict[str, int] = {}
        self._roots: dict[str, list[_Queued]] = {}
        self._queue: list[_Queued] = []
        self._next = 0

    def begin(self, dump: str) -> None:
        """Start a component, from the code of its functions; all earlier decisions must have been learned."""
        for name, roots in self._roots.items():
            self._bodies[name] = list(_remaining(roots))
        self._roots, self._queue, self._next = {}, [], 0
        for name, function in _functions(dump):
            self._first.setdefault(name, function)
            self._roots[name] = [_Queued(callee, name) for callee in function.callees]
            self._queue += self._roots[name]

    def predict(self, caller: str, blocks: int) -> Call:
        """Return the predicted call of the next decision.

        It is in `caller`, the first function of the context, and its callee has the given number of basic blocks.
        """
        name = self._predicted_callee(blocks)
        callee, calling = self._first.get(name), self._first.get(caller)
        caller_linkage = -1 if calling is None else calling.linkage
        if callee is None:
            return Call(name, -1, -1, -1, -1, -1, caller_linkage)
        facts = (callee.linkage, int(callee.unnamed), int(callee.comdat), callee.instructions, callee.calls)
        return Call(name, *facts, caller_linkage)

    def _predicted_callee(self, blocks: int) -> str:
        first = ""
        for call in self._queue[self._next :]:
            function = self._first.get(call.callee)
            if function is not None and function.requested and call.callee not in (call.caller, *call.history):
                first = first or call.callee
                if self._blocks.get(call.callee, blocks) == blocks:
                    return call.callee
        return first

    def learn(self, callee: str, blocks: int, *, inlined: bool) -> None:
        """Process a decision after its answer; the name of its callee is empty if clang printed none."""
        if not callee:
            return
        self._blocks[callee] = blocks
        for position in range(self._next, len(self._queue)):
            if self._queue[position].callee == callee:
                break
        else:
            position = self._next
            caller = self._queue[position - 1].caller if position else ""
            self._queue.insert(position, _Queued(callee, caller))
        call = self._queue[position]
        self._next = position + 1
        if inlined:
            call.inlined = True
            history = (*call.history, callee)
            call.inner = [_Queued(name, call.caller, history) for name in self._bodies.get(callee, ())]
            self._queue += reversed(call.inner)


def _remaining(calls: Sequence[_Queued]) -> Iterator[str]:
    """Yield the callees of the calls that were not inlined, also within inlined ones."""
    for call in calls:
        if call.inlined:
            yield from _remaining(call.inner)
        else:
            yield call.callee


def _functions(dump: str) -> list[tuple[str, _Function]]:
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
        elif within and line.startswith("  ") and not any(word in line for word in _DEBUGGING):
            function = functions[-1][1]
            function.instructions += 1
            if " call " in line or " invoke " in line:
                function.calls += 1
                if called := _CALL.search(line):
                    function.callees.append(called[1].strip('"'))
    return functions
