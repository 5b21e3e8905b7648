"""The part of a module's call graph in which two policies differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlgo_gym.compiler.decision import context_of, functions_of
from mlgo_gym.episode.attribution.inline_compile import answers_by_call_site
from mlgo_gym.explanation.explanation import Explanation

MAX_NODES = 30
"""Maximum number of nodes in a readable picture."""

MAX_EDGES = 60
"""Maximum number of edges; above it, an edge on which both policies agree is shown only to connect a node."""

BOTH_KEEP, BOTH_INLINE, FIRST_INLINES, SECOND_INLINES = "both-keep", "both-inline", "first-inlines", "second-inlines"
"""Outcomes of a call; an edge has the last of these that occurs among its calls."""

_OUTCOMES = (BOTH_KEEP, BOTH_INLINE, FIRST_INLINES, SECOND_INLINES)


@dataclass(frozen=True, slots=True)
class Node:
    """A strongly connected component of the call graph, usually one function, with its bytes under both policies."""

    context: str
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Edge:
    """The calls of one node, by its index, in another; `calls` have the outcome."""

    caller: int
    callee: int
    outcome: str
    calls: int


@dataclass(frozen=True, slots=True)
class CallGraph:
    """A part of a call graph, and the number of differing nodes and of edges between its nodes that are not shown."""

    nodes: list[Node]
    edges: list[Edge]
    hidden_nodes: int
    hidden_edges: int


def call_graph(explanation: Explanation, limit: int = MAX_NODES) -> CallGraph:
    """Return the nodes in which two policies differ, by decisions or bytes, and the calls between them."""
    compiles = explanation.first, explanation.second
    contexts = _merged_contexts({each.context for made in compiles for each in made.decisions})
    changed = {change.symbol: (change.first, change.second) for change in explanation.functions}
    sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name in {*compiles[0].functions.functions, *compiles[1].functions.functions, *changed}:
        pair = changed.get(name) or [made.functions.size(name) for made in compiles]
        total = sizes[contexts.get(name, name)]
        total[0], total[1] = total[0] + pair[0], total[1] + pair[1]
    weight: dict[str, float] = defaultdict(float)
    for change in explanation.functions:
        weight[contexts.get(change.symbol, change.symbol)] += abs(change.change)
    for each in explanation.differences:
        effect = 1.0 + abs(each.credited if each.measured is None else each.measured)
        weight[contexts[each.decision.functions[0]]] += effect
        if each.decision.callee:
            weight[contexts.get(each.decision.callee, each.decision.callee)] += effect
    ranked = sorted(weight, key=lambda name: (-weight[name], name))
    shown = {name: index for index, name in enumerate(ranked[:limit])}
    edges = _edges(explanation, contexts, shown)
    shown_edges = _shown_edges(edges)
    nodes = [Node(name, *sizes[name]) for name in shown]
    return CallGraph(nodes, shown_edges, max(0, len(ranked) - limit), len(edges) - len(shown_edges))


def _merged_contexts(contexts: Iterable[str]) -> dict[str, str]:
    """Return the node of each function; contexts that overlap, in different compiles, are one node."""
    members: dict[str, set[str]] = {}
    for context in contexts:
        merged = set(functions_of(context))
        for name in tuple(merged):
            merged |= members.get(name, set())
        members.update(dict.fromkeys(merged, merged))
    return {name: context_of(merged) for name, merged in members.items()}


def _shown_edges(edges: Sequence[Edge]) -> list[Edge]:
    """Return all edges; if there are too many, the differing ones and those that connect another node."""
    if len(edges) <= MAX_EDGES:
        return list(edges)
    shown = [edge for edge in edges if edge.outcome in (FIRST_INLINES, SECOND_INLINES)]
    connected = {node for edge in shown for node in (edge.caller, edge.callee)}
    for edge in edges:
        if edge not in shown and not {edge.caller, edge.callee} <= connected:
            shown.append(edge)
            connected |= {edge.caller, edge.callee}
    return shown


def _edges(explanation: Explanation, contexts: Mapping[str, str], shown: Mapping[str, int]) -> list[Edge]:
    first, second = (answers_by_call_site(made.decisions) for made in (explanation.first, explanation.second))
    counts: dict[tuple[int, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for call_site in first.keys() | second.keys():
        site, name = call_site
        caller, callee = contexts[site.functions[0]], contexts.get(name, name)
        if caller not in shown or callee not in shown or caller == callee:
            continue
        # A call that only one policy decided is part of code that the other inlined.
        before = first.get(call_site, second.get(call_site))
        after = second.get(call_site, before)
        if before == after:
            outcome = BOTH_INLINE if after else BOTH_KEEP
        else:
            outcome = FIRST_INLINES if before else SECOND_INLINES
        counts[shown[caller], shown[callee]][outcome] += 1
    edges = []
    for (start, end), outcomes in sorted(counts.items()):
        outcome = max(outcomes, key=_OUTCOMES.index)
        edges.append(Edge(start, end, outcome, outcomes[outcome]))
    return edges
