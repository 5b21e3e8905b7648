"""Callee features: facts about the predicted callee of an inlining decision, and about earlier decisions.

Two facts often decide whether inlining one more call makes a module smaller: whether the callee is dropped after its
last call, and whether earlier calls of it were kept. Clang's own features contain neither.

clang names a callee only in its remark after the decision. But it prints each function of a component before it inlines
into it, and processes the calls in the order of that text. The calls of an inlined body are appended, the last one
first (llvm/lib/Transforms/IPO/Inliner.cpp). So the next callee can be predicted, and each remark corrects a wrong
prediction. Of the decisions of seven modules, 98 % were predicted correctly.
"""

from __future__ import annotations

import copy
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from operator import itemgetter
from types import MappingProxyType
from typing import TypeAlias

from typing_extensions import Self

from mlgo_gym.compiler.standard_error import InlineContexts
from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.link_facts import UNKNOWN, LinkFacts
from mlgo_gym.llvm.training_log import LogHeader, TensorSpec

INTERNAL, DISCARDABLE, WEAK, AVAILABLE, EXTERNAL = range(5)
"""Kinds of linkage. A function of the first two kinds is dropped when nothing calls it."""


MODULE_SHARE = "module_share"
"""The only callee feature that is not a whole number."""

CALLEE_FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "callee_linkage": "linkage of the callee: 0 internal, 1 linkonce, 2 weak, 3 available externally, 4 other",
        "callee_unnamed": "1 if the callee's address is insignificant (`unnamed_addr`), else 0",
        "callee_comdat": "1 if the callee is in a comdat group, which the linker merges, else 0",
        "caller_linkage": "linkage of the caller, coded as `callee_linkage`",
        "callee_lines": "instructions in the callee",
        "callee_calls": "calls among these instructions",
        "component_others": "other functions in the caller's component of the call graph",
        "component_visits": "earlier visits of the inliner to this component",
        "component_decisions": "earlier decisions in this visit",
        "callee_kept": "earlier calls of the callee that were kept",
        "callee_inlined": "earlier calls of the callee that were inlined",
        "callee_users_left": "users of the callee minus its kept calls",
        "callee_last": "1 if nothing else uses the callee, else 0",
        "caller_inlined": "earlier calls in the caller that were inlined",
        "caller_kept": "earlier calls in the caller that were kept",
        "pair_inlined": "earlier calls of this callee in this caller that were inlined",
        "pair_kept": "earlier calls of this callee in this caller that were kept",
        "callee_inner_inlined": "calls in the callee that were inlined",
        "callee_inner_kept": "calls in the callee that were kept",
        "module_decisions": "earlier decisions in the module",
        MODULE_SHARE: "earlier decisions in the module, divided by its functions",
        "callee_copies": "objects of the build that define the callee, from link facts, or 0",
        "callee_references": "references to the callee in the build, from link facts, or 0",
    }
)
"""Names and meanings, in the order of the observation. -1 means unknown."""

SOURCE_FEATURES = ("callee_users", "node_count")
"""Features of clang that callee features are computed from."""


def uses_callee_features(features: Iterable[str]) -> bool:
    """Return whether some of the names are callee features."""
    return not set(CALLEE_FEATURES).isdisjoint(features)


@lru_cache(maxsize=64)
def with_callee_features(header: LogHeader) -> LogHeader:
    """Extend the header of an inlining channel by float32 tensors of shape (1,), or raise `ToolchainError`."""
    if missing := [name for name in SOURCE_FEATURES if name not in {spec.name for spec in header.features}]:
        raise ToolchainError(
            f"expected a clang with the features {', '.join(SOURCE_FEATURES)} for callee features, got one without "
            f"{', '.join(missing)}; use callee_features=False"
        )
    return replace(header, features=(*header.features, *(TensorSpec(name, "float", (1,)) for name in CALLEE_FEATURES)))


_FEATURES = struct.Struct(f"<{len(CALLEE_FEATURES)}f")
_NEVER = (0, 0)


def callee_prediction_code() -> str:
    """Return C that computes the same features, for code that cannot use this module."""
    return (files("mlgo_gym.compiler") / "callee_prediction.c").read_text(encoding="utf-8")


_SOURCES = ("callee_basic_block_count", *SOURCE_FEATURES)


def printed_features(header: LogHeader) -> struct.Struct:
    """Return the reader of clang's features as clang prints them: of an embedding its first 8 bytes as int64."""
    specs = (spec for spec in header.features if spec.name not in CALLEE_FEATURES)
    return struct.Struct("<" + "".join(f"q{spec.nbytes - 8}x" for spec in specs))


def callee_name(remarks: bytes, features: Sequence[int]) -> str:
    """Return the name of a decision's callee from the remarks after it; empty if clang printed none.

    clang prints the `printed_features()` directly after the name, without the last one, its own choice.
    """
    # Calls that must be inlined have remarks too, without features.
    for remark in remarks.splitlines():
        for printed in (features[:-1], features):
            numbers = b"%d" * len(printed) % tuple(printed)
            if remark.endswith(numbers) and len(remark) > len(numbers):
                return remark[: -len(numbers)].decode(errors="surrogateescape")
    return ""


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
            name = callee_name(contexts.remarks[-1], features)
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
        # Numbers of kept and of inlined calls, by caller, a component, and callee; None is any.
        self._counts: dict[tuple[str | None, str | None], list[int]] = {}

    def predict(self, payload: bytes, header: LogHeader, contexts: InlineContexts) -> tuple[str, bytes]:
        """Return the predicted callee of the pending decision, empty if unknown, and its callee features.

        Payload and header are as clang wrote them. The features are float32, in the order of `CALLEE_FEATURES`.
        """
        blocks, users, functions = self._follow(payload, header, contexts)
        site, count = contexts.site, self._counts.get
        name, callee, caller_linkage = self._calls.predict(site.functions[0], blocks)
        kept, inlined = count((None, name), _NEVER)
        caller_kept, caller_inlined = count((site.context, None), _NEVER)
        pair_kept, pair_inlined = count((site.context, name), _NEVER)
        inner_kept, inner_inlined = count((name, None), _NEVER)
        decisions = sum(count((None, None), _NEVER))
        # Clang counts the symbol of an externally visible function as one more use.
        uses = users - (callee.linkage != INTERNAL)
        return name, _FEATURES.pack(
            *(callee.linkage, callee.unnamed, callee.comdat, caller_linkage, callee.instructions, callee.calls),
            *(len(site.functions) - 1, site.visit, site.index),
            *(kept, inlined, users - kept, uses <= 1),
            *(caller_inlined, caller_kept, pair_inlined, pair_kept, inner_inlined, inner_kept),
            *(decisions, decisions / max(1, functions)),
            *(UNKNOWN if self._facts is None else self._facts.of(name)),
        )

    def _note(self, context: str, callee: str, call: QueuedCall | None) -> None:
        del call
        for pair in ((None, None), (None, callee), (context, None), (context, callee)):
            self._counts.setdefault(pair, [0, 0])[self._inlined] += 1

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = super().copy()
        copied._counts = copy.deepcopy(self._counts)
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
_CALL = re.compile(r"(?:call|invoke) [^@]*?" + NAME + r"\(")
_ESCAPE = re.compile(rb"\\(?:(\\)|([0-9A-F]{2}))")
_ATTRIBUTES = "; Function Attrs: "
_DEBUG_RECORD, _DEBUG_CALL = "#dbg_", "@llvm.dbg."
"""Parts of lines that describe variables; calls before LLVM 19."""


@dataclass(slots=True)
class _Function:
    """A function as clang printed it when the inliner first visited it; numbers are -1 where unknown."""

    linkage: int
    unnamed: int
    comdat: int
    requested: bool
    instructions: int = 0
    calls: int = 0
    callees: list[str] = field(default_factory=list)


_UNKNOWN_FUNCTION = _Function(-1, -1, -1, requested=False, instructions=-1, calls=-1)

PredictedCall: TypeAlias = tuple[str, _Function, int]
"""Name of the callee, empty if unknown; the callee; linkage of the caller, of a component of the first by name."""


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

    def predict(self, caller: str, blocks: int) -> PredictedCall:
        """Return the predicted call of the next decision.

        It is in `caller`, the first function of the context, and its callee has the given number of basic blocks.
        """
        expected = next(self.expected(blocks), None) or next(self._candidates(), None)
        name = "" if expected is None else expected.callee
        return name, self._first.get(name, _UNKNOWN_FUNCTION), self._first.get(caller, _UNKNOWN_FUNCTION).linkage

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
                functions.append((symbol_name(definition[2]), function))
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
                if (callee := called_in(line)) is not None:
                    function.callees.append(callee)
    return functions


def called_in(line: str) -> str | None:
    """Return the callee of a line of code; None if the line is no direct call."""
    if not (" call " in line or " invoke " in line) or _DEBUG_RECORD in line or _DEBUG_CALL in line:
        return None
    return None if (called := _CALL.search(line)) is None else symbol_name(called[1])


def symbol_name(printed: str) -> str:
    """Return the name of what LLVM prints: with special characters it is quoted, such as `"o\\22d"` for `o"d`."""
    if not printed.startswith('"'):
        return printed
    name = printed[1:-1].encode(errors="surrogateescape")
    return _ESCAPE.sub(lambda code: code[1] or bytes.fromhex(code[2].decode()), name).decode(errors="surrogateescape")
