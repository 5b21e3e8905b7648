"""The code at an inlining decision, and the call graph of the module, from the code that clang prints.

One compile prints the whole module when the inliner starts, and ends there. In an episode clang prints each function
twice: before the inliner visits it, and simplified, after the inliner has left it. The second text is the code that
clang copies into callers.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from mlgo_gym.compiler.callee_features import (
    CALL,
    DISCARDABLE,
    EXTERNAL,
    INTERNAL,
    NAME,
    CallTracker,
    QueuedCall,
    parse_functions,
)
from mlgo_gym.compiler.standard_error import CONTEXT_FLAGS, InlineContexts
from mlgo_gym.extras import library
from mlgo_gym.llvm.training_log import LogHeader

INITIAL, BEFORE, LEFT = "initial", "before", "left"
"""States of code: at the start of the inliner, before the latest visit of the inliner, after it and simplified."""

PARSE_FLAGS = ("-mllvm", "-allow-incomplete-ir")
"""The `-cc1` arguments with which clang 18 or newer parses `DecisionIR.text`."""

MODULE_FLAGS = (*CONTEXT_FLAGS, "-mllvm", "-print-after=inline", "-mllvm", "-print-module-scope")
"""The `-cc1` arguments that print the module when the inliner starts, then `MODULE_END`."""

MODULE_END = "*** IR Dump After InlinerPass on "

_INTRINSIC = "llvm."
_SYMBOL = re.compile(NAME)
_FUNCTION = re.compile(r"^(?:; Function Attrs: [^\n]*\n)?define [^\n]*\{\n.*?^\}\n", re.MULTILINE | re.DOTALL)
_DECLARATION = re.compile(r"^declare [^@\n]*" + NAME, re.MULTILINE)
_GLOBAL = re.compile(r"^@[^\n]*", re.MULTILINE)
_TYPE = re.compile(r'^(%(?:"[^"]*"|[-\w.$]+)) = type [^\n]*\n', re.MULTILINE)
_TYPE_NAME = re.compile(r'%(?:"[^"]*"|[-\w.$]+)')
_LABEL = re.compile(r'^(?:"[^"\n]*"|[-\w.$]+):', re.MULTILINE)
_COMDAT = re.compile(r" comdat(?:\(\$(?:\"[^\"]*\"|[-\w.$]+)\))?")

# LLVM splits a coroutine (llvm/lib/Transforms/Coroutines) after the start of the inliner: types of frames and arrays of
# parts are not in the printed module.
_FRAME = re.compile(r'getelementptr [^%\n]*(%(?:"[^"\n]*\.Frame"|[-\w.$]+\.Frame)), ptr [^,\n]*, i32 0, i32 (\d+)')
_PARTS = re.compile(r'@llvm\.coro\.id\([^\n]*@("?)([^"\n]*)\.resumers"?\)')


NODE_COLUMNS = ("linkage", "instructions", "blocks", "uses", "address_taken", "declared", "left")
"""Columns of nodes.

`linkage` has the codes of `mlgo_gym.compiler.callee_features`. `uses` counts the references in printed code and in the
values of globals, `address_taken` those that are no direct calls. `declared` is 1 for a function without code, `left`
for one that the inliner has left.
"""

EDGE_COLUMNS = ("calls", "kept", "inlined", "decision")
"""Columns of edges: direct calls in the printed code, earlier decisions by result, and 1 for the pending decision."""


@dataclass(frozen=True, slots=True)
class CallGraph:
    """Functions and the calls between them, without LLVM's intrinsics.

    Attributes:
        functions: Names of the functions, in the order of the nodes. The first is the caller of the pending decision,
            the second its callee, unless that is unknown or the same.
        nodes: int64 of shape (functions, `NODE_COLUMNS`).
        edges: int64 of shape (edges, `EDGE_COLUMNS`). An edge without calls has earlier decisions, or the pending one.
            The pending decision is on an edge of the caller to itself if the callee is unknown.
        edge_links: Nodes of caller and callee, int64 of shape (edges, 2).
    """

    functions: tuple[str, ...]
    nodes: npt.NDArray[np.int64]
    edges: npt.NDArray[np.int64]
    edge_links: npt.NDArray[np.int64]

    def to_networkx(self) -> Any:
        """Return a `networkx.DiGraph` of the names, with the columns as attributes of nodes and edges."""
        graph = library("networkx", "CallGraph.to_networkx()", "graphs").DiGraph()
        for name, row in zip(self.functions, self.nodes.tolist(), strict=True):
            graph.add_node(name, **dict(zip(NODE_COLUMNS, row, strict=True)))
        for (caller, callee), row in zip(self.edge_links.tolist(), self.edges.tolist(), strict=True):
            attributes = dict(zip(EDGE_COLUMNS, row, strict=True))
            graph.add_edge(self.functions[caller], self.functions[callee], **attributes)
        return graph

    def to_pyg(self) -> Any:
        """Return a `torch_geometric.data.Data` with float32 `x` and `edge_attr`, `edge_index`, and `functions`."""
        torch = library("torch", "CallGraph.to_pyg()", "graphs")
        data = library("torch_geometric.data", "CallGraph.to_pyg()", "graphs")
        return data.Data(
            x=torch.as_tensor(self.nodes, dtype=torch.float32),
            edge_index=torch.as_tensor(self.edge_links.T.copy()),
            edge_attr=torch.as_tensor(self.edges, dtype=torch.float32),
            functions=self.functions,
        )


NO_CALLS = CallGraph(
    ("",),
    *(
        np.zeros((rows, columns), np.int64)
        for rows, columns in ((1, len(NODE_COLUMNS)), (0, len(EDGE_COLUMNS)), (0, 2))
    ),
)
"""A graph of one function without a name, after the last decision."""


@dataclass(frozen=True, slots=True)
class DecisionIR:
    """The code at a decision, as LLVM IR.

    Attributes:
        caller, callee: Names of the functions; empty where unknown.
        call: Line of the call; empty if unknown.
        call_in: Name of the function whose code contains the line: the caller, or a function inlined into it in this
            visit.
        caller_code, callee_code: Code of the functions, with metadata and attribute groups as clang numbers them.
        caller_state, callee_state: State of the code: `INITIAL`, `BEFORE` or `LEFT`. The caller's is without the calls
            that were inlined in this visit.
        text: A module of the types and the code of caller, callee and `call_in`, which clang parses with `PARSE_FLAGS`.
    """

    caller: str
    callee: str
    call: str
    call_in: str
    caller_code: str
    callee_code: str
    caller_state: str
    callee_state: str
    text: str


@dataclass(frozen=True, slots=True)
class PrintedFunction:
    """A function as clang printed it.

    Attributes:
        code: Its code.
        state: `INITIAL`, `BEFORE` or `LEFT`.
        row: Its node without uses, by column.
        calls: Direct calls by callee, without intrinsics.
        uses: References to other symbols by name, direct calls included.
        callees: Callees of the direct calls in order, with intrinsics.
    """

    code: str
    state: str
    row: Mapping[str, int]
    calls: Mapping[str, int]
    uses: Mapping[str, int]
    callees: tuple[str, ...]

    @classmethod
    def parse(cls, code: str, state: str) -> tuple[str, PrintedFunction]:
        """Return the name of the function in some code, and the function."""
        ((name, facts),) = parse_functions(code)
        body = code.partition("define ")[2].partition("\n")
        labels = len(_LABEL.findall(body[2])) + (_LABEL.match(body[2]) is None)
        row = {"linkage": facts.linkage, "instructions": facts.instructions, "blocks": labels, "left": state == LEFT}
        uses = Counter(map(_plain, _SYMBOL.findall(code)))
        uses[name] -= 1
        calls = Counter(callee for callee in facts.callees if not callee.startswith(_INTRINSIC))
        return name, cls(code, state, row, calls, +uses, tuple(facts.callees))

    def call_line(self, callee: str, position: int) -> str:
        """Return the line of the direct call at a position, or of the first one if that has another callee."""
        lines = [(line, match[1]) for line in self.code.splitlines() if (match := CALL.search(line))]
        named = [line.strip() for line, name in lines if _plain(name) == callee]
        if 0 <= position < len(self.callees) and self.callees[position] == callee:
            return named[self.callees[:position].count(callee)]
        return named[0] if named else ""


class PrintedModule:
    """The code of a module as far as clang has printed it; `text` is that of the whole module at the start."""

    def __init__(self, text: str) -> None:
        self.functions: dict[str, PrintedFunction] = {}
        self.types = {match[1]: match[0] for match in _TYPE.finditer(text)}
        self.globals = {_plain(_SYMBOL.match(line)[1]): line for line in _GLOBAL.findall(text)}  # type: ignore[index]
        self._callers: dict[str, dict[str, None]] = {}
        self.uses: Counter[str] = Counter()
        for line in self.globals.values():
            self.uses.update(map(_plain, _SYMBOL.findall(line)[1:]))
        self._declared = [name for name in map(_plain, _DECLARATION.findall(text)) if not name.startswith(_INTRINSIC)]
        for _ in self.read(text, INITIAL, ()):
            pass

    def read(self, text: str, state: str, inlined: Container[str]) -> Iterator[tuple[str, PrintedFunction]]:
        """Replace the functions in a text, and yield each with its name; those that clang then drops leave."""
        for match in _FUNCTION.finditer(text):
            name, function = PrintedFunction.parse(match[0], state)
            before = self._remove(name)
            self.functions[name] = function
            self.uses.update(function.uses)
            for callee in function.calls:
                self._callers.setdefault(callee, {})[name] = None
            self._drop_unused(before, inlined)
            yield name, function

    def _remove(self, name: str) -> Mapping[str, int]:
        if (removed := self.functions.pop(name, None)) is None:
            return {}
        self.uses.subtract(removed.uses)
        for callee in removed.calls:
            self._callers[callee].pop(name, None)
        return removed.uses

    def _drop_unused(self, names: Iterable[str], inlined: Container[str]) -> None:
        """Remove unused functions among some names, as clang does: local ones, and `linkonce` ones after inlining."""
        for name in names:
            function = self.functions.get(name)
            linkage = EXTERNAL if function is None else function.row["linkage"]
            is_dropped = linkage == INTERNAL or (linkage <= DISCARDABLE and name in inlined)
            if is_dropped and not self.uses[name]:
                self._drop_unused(self._remove(name), inlined)

    def parseable(self, names: Iterable[str]) -> str:
        """Return the code of functions and the types that it uses, as a module that clang parses with `PARSE_FLAGS`."""
        codes = [self.functions[name].code for name in dict.fromkeys(names) if name in self.functions]
        code = "".join(_COMDAT.sub("", text, count=1) for text in codes)
        types: dict[str, str] = {}
        unread = [code]
        while unread:
            for name in _TYPE_NAME.findall(unread.pop()):
                if name in self.types and name not in types:
                    types[name] = self.types[name]
                    unread.append(types[name].partition("=")[2])
        used = dict.fromkeys(map(_plain, _SYMBOL.findall(code)))
        lines = (self.globals[name] for name in used if name in self.globals)
        symbols = [line.partition(" = ")[0] for line in lines if " thread_local" in line.partition(" global ")[0]]
        declared = (f"{name} = external thread_local global i8\n" for name in symbols)
        return "".join((*types.values(), *_coroutine_parts(code), *declared, code))

    def neighbourhood(self, start: Iterable[str], limit: int | None) -> list[str]:
        """Return up to `limit` functions, the nearest over calls first; None returns all functions of the module."""
        found = dict.fromkeys(start)
        for name in (unread := list(found)):
            function = self.functions.get(name)
            for other in (*(() if function is None else function.calls), *self._callers.get(name, ())):
                if limit is not None and len(found) >= limit:
                    return list(found)
                if other not in found:
                    found[other] = None
                    unread.append(other)
        if limit is None:
            found.update(dict.fromkeys((*self.functions, *self._declared)))
        return list(found)

    def node(self, name: str) -> list[int]:
        """Return the node of a function, by `NODE_COLUMNS`."""
        function, calls = self.functions.get(name), 0
        for caller in self._callers.get(name, ()):
            calls += self.functions[caller].calls[name]
        row = {"linkage": EXTERNAL, "declared": 1} if function is None else function.row
        found = {**row, "uses": self.uses[name], "address_taken": self.uses[name] - calls}
        return [int(found.get(column, 0)) for column in NODE_COLUMNS]

    def copy(self) -> PrintedModule:
        """Return an independent copy."""
        copied = copy.copy(self)
        copied.functions, copied.uses = self.functions.copy(), self.uses.copy()
        copied._callers = {name: callers.copy() for name, callers in self._callers.items()}
        return copied


class DecisionCode(CallTracker):
    """The code and the call graph at the pending decision of one session; `module` is its module at the start."""

    def __init__(self, module: PrintedModule) -> None:
        super().__init__()
        self.module = module.copy()
        self._call: QueuedCall | None = None
        self._caller = ""
        self._changed_uses: Counter[str] = Counter()
        self._decided: dict[str, dict[str, tuple[int, int]]] = {}
        self._inlined_once: set[str] = set()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DecisionCode) and self.module.functions == other.module.functions

    __hash__ = None  # type: ignore[assignment] # it changes

    def advance(self, payload: bytes, header: LogHeader, contexts: InlineContexts) -> None:
        """Turn to the next decision; payload and header are as clang wrote them."""
        blocks, users, _ = self._follow(payload, header, contexts)
        expected = self._calls.expected(blocks)
        if len(contexts.site.functions) > 1:
            # clang skips the calls in functions that it has removed, which only their uses show.
            expected = (call for call in expected if self._users(call.callee) == users)
        self._call = next(expected, None)
        self._caller = contexts.site.functions[0] if self._call is None else self._call.caller

    def _read(self, dump: str, *, left: bool) -> None:
        super()._read(dump, left=left)
        self._changed_uses.clear()
        for name, function in self.module.read(dump, LEFT if left else BEFORE, self._inlined_once):
            self._calls.set_blocks(name, function.row["blocks"])
            if left:
                self._calls.leave(name, function.callees)

    def _note(self, context: str, callee: str, call: QueuedCall | None) -> None:
        del context
        if call is not None:
            decided = self._decided.setdefault(call.caller, {})
            kept, inlined = decided.get(callee, (0, 0))
            decided[callee] = (kept + (not self._inlined), inlined + self._inlined)
            if self._inlined:
                self._inlined_once.add(callee)
                self._inline(call)

    def _inline(self, call: QueuedCall) -> None:
        """Follow what an inlined call changes in this visit: the uses of functions, and code that nothing uses."""
        self._calls.set_blocks(call.caller, -1)
        if (callee := self.module.functions.get(call.callee)) is None:
            return
        self._changed_uses.update(callee.uses)
        self._changed_uses[call.callee] -= 1
        if callee.row["linkage"] == INTERNAL and not self._uses(call.callee):
            self._changed_uses.subtract(callee.uses)
            self._calls.drop(call.callee)

    def _uses(self, name: str) -> int:
        return self.module.uses[name] + self._changed_uses[name]

    def _users(self, name: str) -> int:
        """Return the users of a function as clang counts them: the symbol of a visible function is one more."""
        function = self.module.functions.get(name)
        return self._uses(name) + (function is not None and function.row["linkage"] != INTERNAL)

    def ir(self) -> DecisionIR:
        """Return the code at the pending decision."""
        call = self._call
        callee = "" if call is None else call.callee
        call_in = self._caller if call is None or not call.history else call.history[-1]
        functions = self.module.functions
        codes = [functions[name].code if name in functions else "" for name in (self._caller, callee)]
        states = [functions[name].state if name in functions else "" for name in (self._caller, callee)]
        line = "" if call is None or call_in not in functions else functions[call_in].call_line(callee, call.position)
        text = self.module.parseable((callee, call_in, self._caller))
        return DecisionIR(self._caller, callee, line, call_in, codes[0], codes[1], states[0], states[1], text)

    def call_graph(self, limit: int | None = None) -> CallGraph:
        """Return the call graph, or the part of up to `limit` functions that are nearest to the call."""
        callee = self._caller if self._call is None else self._call.callee
        names = self.module.neighbourhood((self._caller, callee), limit)
        nodes = {name: node for node, name in enumerate(names)}
        edges: dict[tuple[int, int], list[int]] = {(0, nodes[callee]): [0, 0, 0, 1]}
        for caller, node in nodes.items():
            function = self.module.functions.get(caller)
            for name, calls in () if function is None else function.calls.items():
                if name in nodes:
                    edges.setdefault((node, nodes[name]), [0, 0, 0, 0])[0] = calls
            for name, decided in self._decided.get(caller, {}).items():
                if name in nodes:
                    edges.setdefault((node, nodes[name]), [0, 0, 0, 0])[1:3] = decided
        return CallGraph(
            tuple(names),
            np.array([self.module.node(name) for name in names], np.int64),
            np.array(list(edges.values()), np.int64),
            np.array(list(edges), np.int64),
        )

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = super().copy()
        copied.module = self.module.copy()
        copied._changed_uses = self._changed_uses.copy()
        copied._decided = copy.deepcopy(self._decided)
        copied._inlined_once = self._inlined_once.copy()
        if self._call is not None:
            copied._call = copy.copy(self._call)
        return copied


def _coroutine_parts(code: str) -> Iterator[str]:
    """Yield frame types with placeholders for fields, and arrays of the parts of split coroutines."""
    fields: dict[str, int] = {}
    for frame, index in _FRAME.findall(code):
        fields[frame] = max(fields.get(frame, 0), int(index) + 1)
    for frame, count in fields.items():
        yield f"{frame} = type {{ {', '.join(['ptr'] * count)} }} ; placeholders\n"
    for quote, name in dict.fromkeys(_PARTS.findall(code)):
        parts = (f"ptr @{quote}{name}.{part}{quote}" for part in ("resume", "destroy", "cleanup"))
        yield f"@{quote}{name}.resumers{quote} = private constant [3 x ptr] [{', '.join(parts)}]\n"


def _plain(name: str) -> str:
    return name.strip('"')
