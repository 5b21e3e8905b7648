"""The code at an inlining decision, and the call graph of the module, from the code that clang prints.

One compile prints the whole module when the inliner starts, and ends there. In an episode clang prints each function
twice: before the inliner visits it, and simplified, after the inliner has left it. The second text is the code that
clang copies into callers.
"""

import copy
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from mlgo_gym.compiler.callee_features import INTERNAL
from mlgo_gym.compiler.inlining_output import ExpectedCall, InliningOutput, printed_components
from mlgo_gym.compiler.printed_module import BEFORE, LEFT, PrintedModule
from mlgo_gym.errors import ActionError
from mlgo_gym.extras import library
from mlgo_gym.llvm.training_log import LogHeader

NODE_COLUMNS = ("linkage", "instructions", "blocks", "uses", "address_taken", "declared", "left")
"""Columns of nodes.

`linkage` has the codes of `mlgo_gym.compiler.callee_features`. `uses` counts the references in printed code and in the
values of globals, `address_taken` those that are no direct calls. `declared` is 1 for a function without code, `left`
for one that the inliner has left.
"""

EDGE_COLUMNS = ("calls", "position", "loop_depth", "frequency", "kept", "inlined", "alias", "decision")
"""Columns of edges.

`calls` counts direct calls in the printed code. `position` is the place of the first one among the direct calls of the
caller, from 1. `loop_depth` is the largest number of loops around one of them, and `frequency` their estimated
executions in 1,000 runs of the caller (`mlgo_gym.compiler.printed_blocks`). The first edge has these three of the
pending call, in the code that the call comes from. `kept` and `inlined` count earlier decisions by result. `alias` is 1
from an alias to its aliasee. `decision` is 1 for the pending decision.
"""


@dataclass(frozen=True, slots=True)
class CallGraph:
    """Functions and the calls between them, without LLVM's intrinsics.

    Attributes:
        functions: Names of the functions, in the order of the nodes. The first is the caller of the pending decision,
            the second its callee, unless that is unknown or the same. An unknown caller has no name and a node of
            zeros; the functions of the component follow.
        nodes: int64 of shape (functions, `NODE_COLUMNS`).
        edges: int64 of shape (edges, `EDGE_COLUMNS`). An edge without calls has earlier decisions, the pending one, or
            an alias.
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

UNKNOWN_CALL = replace(
    NO_CALLS,
    edges=np.array([[int(name == "decision") for name in EDGE_COLUMNS]]),
    edge_links=np.zeros((1, 2), np.int64),
)
"""The same with the edge of a decision, for a recorded decision, whose code is not kept."""


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
            That of a split coroutine lacks the type of its frame, which clang does not print, and does not parse.
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


class DecisionCode:
    """The code and the call graph at the pending decision of one session; `module` is its module at the start."""

    def __init__(self, module: PrintedModule) -> None:
        self.module = module.copy()
        self._output: InliningOutput | None = InliningOutput(follows_code=True)
        self._call: ExpectedCall | None = None
        self._inlined = False
        self._caller = ""
        self._changed_uses: Counter[str] = Counter()
        self._decided: dict[str, dict[str, tuple[int, int]]] = {}
        self._component: tuple[str, ...] = ()
        self.answered = 0
        self._inlined_once: set[str] = set()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DecisionCode) and self.module.functions == other.module.functions

    __hash__ = None  # type: ignore[assignment] # it changes

    def answer(self, advice: bytes) -> None:
        """Note the answer to the pending decision."""
        self._inlined = any(advice)
        if self._output is not None:
            self._output.answer(advice)
        self.answered += 1

    def advance(self, text: bytes, payload: bytes, header: LogHeader, component: tuple[str, ...]) -> None:
        """Turn to the next decision, in a component, after more output; payload and header are as clang wrote them."""
        output = self._output
        assert output is not None, "only a copy without tracking has none"
        output.read(text)
        if (decided := output.decided_call()) is not None:
            self._note(output, *decided)
        for left, code in printed_components(text):
            self._changed_uses.clear()
            self.module.read(code, LEFT if left else BEFORE, self._inlined_once)
        output.next_decision(payload, header)
        expected = output.expected_calls()
        if len(component) > 1:
            # clang skips the calls in functions that it has removed, which only their uses show.
            offset = header.offsets["callee_users"]
            users = int.from_bytes(payload[offset : offset + 8], "little", signed=True)
            expected = (call for call in expected if self._users(call.callee) == users)
        self._call = first = next(expected, None)
        if first is not None and self._is_recursive(first.callee):
            # Seen in clang 22: it requests no decision about a callee that calls itself.
            self._call = next((call for call in expected if not self._is_recursive(call.callee)), first)
        self._component = component
        alone = self._component[0] if len(self._component) == 1 else ""
        self._caller = alone if self._call is None else self._call.caller

    def _note(self, output: InliningOutput, caller: str, callee: str, left: bool) -> None:
        """Follow what a decision changes in this visit: the uses of functions, and code that nothing uses."""
        decided = self._decided.setdefault(caller, {})
        kept, inlined = decided.get(callee, (0, 0))
        decided[callee] = (kept + (not self._inlined), inlined + self._inlined)
        if not self._inlined:
            return
        self._inlined_once.add(callee)
        if (function := self.module.functions.get(callee)) is None:
            return
        self._changed_uses.update(function.uses)
        self._changed_uses[callee] -= 1
        if function.row["linkage"] == INTERNAL and not self._uses(callee):
            self._changed_uses.subtract(function.uses)
            if not left:
                output.drop_calls_in(callee)

    def _is_recursive(self, name: str) -> bool:
        function = self.module.functions.get(name)
        return function is not None and name in function.calls

    def _uses(self, name: str) -> int:
        return self.module.uses[name] + self._changed_uses[name]

    def _users(self, name: str) -> int:
        """Return the users of a function as clang counts them: the symbol of a visible function is one more."""
        function = self.module.functions.get(name)
        return self._uses(name) + (function is not None and function.row["linkage"] != INTERNAL)

    def _call_in(self) -> str:
        return self._caller if self._call is None else self._call.call_in

    def ir(self) -> DecisionIR:
        """Return the code at the pending decision."""
        call = self._call
        callee = "" if call is None else call.callee
        call_in = self._call_in()
        functions = self.module.functions
        codes = [functions[name].code if name in functions else "" for name in (self._caller, callee)]
        states = [functions[name].state if name in functions else "" for name in (self._caller, callee)]
        line = "" if call is None or call_in not in functions else functions[call_in].call_line(callee, call.position)
        text = self.module.parseable((callee, call_in, self._caller))
        return DecisionIR(self._caller, callee, line, call_in, codes[0], codes[1], states[0], states[1], text)

    def call_graph(self, limit: int | None = None) -> CallGraph:
        """Return the call graph, or the part of up to `limit` functions that are nearest to the call."""
        callee = self._caller if self._call is None else self._call.callee
        # clang names at most ten functions, and "..." for the others.
        component = () if self._caller else filter(self.module.functions.__contains__, self._component)
        names = self.module.neighbourhood((self._caller, callee, *component), limit)
        nodes = {name: node for node, name in enumerate(names)}
        decision = (0, nodes[callee])
        edges: dict[tuple[int, int], dict[str, int]] = {decision: {"decision": 1}}
        for caller, node in nodes.items():
            function = self.module.functions.get(caller)
            for name, edge in () if function is None else function.edges.items():
                if name in nodes:
                    edges.setdefault((node, nodes[name]), {}).update(edge)
            for name, decided in self._decided.get(caller, {}).items():
                if name in nodes:
                    edges.setdefault((node, nodes[name]), {}).update(zip(("kept", "inlined"), decided, strict=True))
            if (aliasee := self.module.aliases.get(caller)) in nodes:
                edges[node, nodes[aliasee]] = {"alias": 1}
        edges[decision].update(self._pending_site())
        tables = (map(self.module.node, names), NODE_COLUMNS), (edges.values(), EDGE_COLUMNS)
        nodes_table, edges_table = (
            np.array([[row.get(column, 0) for column in columns] for row in rows], np.int64) for rows, columns in tables
        )
        return CallGraph(tuple(names), nodes_table, edges_table, np.array(list(edges), np.int64))

    def _pending_site(self) -> dict[str, int]:
        call, function = self._call, self.module.functions.get(self._call_in())
        if call is None or call.position < 0 or function is None:
            return {}
        is_known = function.callees[call.position :][:1] == (call.callee,)
        return function.place([call.position]) if is_known else {}

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = self.without_tracking()
        copied._output = None if self._output is None else self._output.copy()
        copied._changed_uses = self._changed_uses.copy()
        copied._inlined_once = self._inlined_once.copy()
        return copied

    def without_tracking(self) -> Self:
        """Return an independent copy that cannot advance; it can be pickled."""
        kept = copy.copy(self)
        kept._output = None
        kept.module, kept._decided = self.module.copy(), copy.deepcopy(self._decided)
        return kept


class PendingCode:
    """The code at one inlining decision: `info["code"]`.

    It can be read until the decision is answered. A copy or a pickle that was made before can be read at any time.
    """

    def __init__(self, code: DecisionCode) -> None:
        self._code: DecisionCode | None = code
        self._answered = code.answered

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PendingCode) and self._code == other._code

    __hash__ = None  # type: ignore[assignment] # it changes

    def ir(self) -> DecisionIR:
        """Return the code of caller, predicted callee and call; raise `ActionError` if the decision is answered."""
        return self._pending().ir()

    def call_graph(self, functions: int | None = None) -> CallGraph:
        """Return the call graph, or the `functions` (≥ 2) nearest to the call; raise as `ir()`."""
        return self._pending().call_graph(functions)

    @property
    def _is_pending(self) -> bool:
        return self._code is not None and self._code.answered == self._answered

    def _pending(self) -> DecisionCode:
        if self._code is None or not self._is_pending:
            raise ActionError(
                "expected the code of a pending decision, got one of an answered decision; read it before step(), or "
                "copy.deepcopy() it"
            )
        return self._code

    def __getstate__(self) -> tuple[DecisionCode | None, int]:
        code = self._pending().without_tracking() if self._is_pending else None
        return code, self._answered

    def __setstate__(self, state: tuple[DecisionCode | None, int]) -> None:
        self._code, self._answered = state

    def __deepcopy__(self, memo: dict[int, Any]) -> "PendingCode":
        # The parts of the code are immutable: a copy of each text would take milliseconds.
        return copy.copy(self)
