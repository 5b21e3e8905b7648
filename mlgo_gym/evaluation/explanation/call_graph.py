"""The part of a module's call graph in which two policies differ, and its picture as SVG.

The picture has callers to the left of their callees. The page's style sheet gives its colours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mlgo_gym.compiler.decision import context_of, functions_of
from mlgo_gym.episode.attribution.inline_compile import answers_by_call_site
from mlgo_gym.evaluation.explanation.explanation import Explanation
from mlgo_gym.evaluation.explanation.names import readable_context, short_context, signed, templates
from mlgo_gym.extras import library

MAX_NODES = 30
"""Maximum number of nodes in a readable picture."""

MAX_EDGES = 60
"""Maximum number of edges; above it, an edge on which both policies agree is shown only to connect a node."""

BOTH_KEEP, BOTH_INLINE, FIRST_INLINES, SECOND_INLINES = "both-keep", "both-inline", "first-inlines", "second-inlines"
"""Outcomes of a call; an edge has the last of these that occurs among its calls."""

_OUTCOMES = (BOTH_KEEP, BOTH_INLINE, FIRST_INLINES, SECOND_INLINES)


Position = tuple[float, float]
"""Layer, from 0 on the left, and height in rows."""

_MAX_ITERATIONS = 500

# Sizes in pixels, and the width of a name in characters.
_WIDTH, _HEIGHT = 196, 40
_COLUMN, _ROW = 268, 54
_MARGIN = 12
_CHARACTERS = 23


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
    contexts = _merged_contexts({decision.context for compiled in compiles for decision in compiled.decisions})
    changed = {change.symbol: (change.first, change.second) for change in explanation.functions}
    sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for name in {*compiles[0].functions.functions, *compiles[1].functions.functions, *changed}:
        pair = changed.get(name) or [compiled.functions.size(name) for compiled in compiles]
        total = sizes[contexts.get(name, name)]
        total[0], total[1] = total[0] + pair[0], total[1] + pair[1]
    weight: dict[str, float] = defaultdict(float)
    for change in explanation.functions:
        weight[contexts.get(change.symbol, change.symbol)] += abs(change.change)
    for difference in explanation.differences:
        effect = 1.0 + abs(difference.credited if difference.measured is None else difference.measured)
        decision = difference.decision
        for name in {decision.functions[0], decision.callee or decision.functions[0]}:
            weight[contexts.get(name, name)] += effect
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
    first, second = (answers_by_call_site(side.decisions) for side in (explanation.first, explanation.second))
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


def picture(graph: CallGraph, policies: tuple[str, str]) -> str:
    """Return a call graph as SVG, callers to the left of their callees.

    Nodes have the classes `node` and `grown`, `shrunk` or `same`; edges have `edge` and their outcome. Each has a
    title, which browsers show at the pointer.
    """
    corners, paths = layered_layout(len(graph.nodes), [(edge.caller, edge.callee) for edge in graph.edges])
    positions = [position for path in paths for position in path] + corners
    drawn = zip(graph.edges, paths, strict=True)
    text: str = (
        templates()
        .get_template("call_graph.svg")
        .render(
            width=max((column for column, _ in positions), default=0) * _COLUMN + _WIDTH + 2 * _MARGIN,
            height=round(max((row for _, row in positions), default=0) * _ROW + _HEIGHT + 2 * _MARGIN),
            node_width=_WIDTH,
            node_height=_HEIGHT,
            nodes=[_node(node, position, policies) for node, position in zip(graph.nodes, corners, strict=True)],
            # Differing edges are drawn last, on top.
            edges=[
                _edge(graph, edge, path, policies)
                for edge, path in sorted(drawn, key=lambda pair: pair[0].outcome in (FIRST_INLINES, SECOND_INLINES))
            ],
        )
    )
    return text


def _corner(position: Position) -> tuple[int, int]:
    return round(_MARGIN + position[0] * _COLUMN), round(_MARGIN + position[1] * _ROW)


def _node(node: Node, position: Position, policies: tuple[str, str]) -> dict[str, Any]:
    change = node.second - node.first
    sizes = f"{node.first:,}" if node.first else "no code of its own"
    if change:
        sizes = f"{f'{node.first:,}' if node.first else 'new'} → {f'{node.second:,}' if node.second else 'removed'}"
    x, y = _corner(position)
    return {
        "x": x,
        "y": y,
        "kind": "grown" if change > 0 else "shrunk" if change < 0 else "same",
        "title": f"{readable_context(node.context)}: {node.first:,} bytes, {node.second:,} under {policies[1]}",
        "name": short_context(node.context, _CHARACTERS),
        "sizes": sizes,
        "change": signed(change) if change else "",
    }


def _edge(graph: CallGraph, edge: Edge, path: list[Position], policies: tuple[str, str]) -> dict[str, str]:
    is_forward = path[-1][0] >= path[0][0]
    points: list[tuple[int, int]] = []
    for position in path:
        left, top = _corner(position)
        ends = [(left, top + _HEIGHT // 2), (left + _WIDTH, top + _HEIGHT // 2)]
        points += ends if is_forward else reversed(ends)
    (x, y), *others = points[1:-1]
    line = f"M{x},{y}"
    bend = (_COLUMN - _WIDTH) // (2 if is_forward else -2)
    for index, (nx, ny) in enumerate(others):
        # Straight through a layer, curved between layers.
        line += f"L{nx},{ny}" if index % 2 else f"C{x + bend},{y} {nx - bend},{ny} {nx},{ny}"
        x, y = nx, ny
    outcomes = {
        BOTH_KEEP: "kept by both",
        BOTH_INLINE: "inlined by both",
        FIRST_INLINES: f"inlined by {policies[0]} alone",
        SECOND_INLINES: f"inlined by {policies[1]} alone",
    }
    caller, callee = (readable_context(graph.nodes[node].context) for node in (edge.caller, edge.callee))
    calls = f"{edge.calls} calls" if edge.calls > 1 else "call"
    title = f"{caller} → {callee}: {calls} {outcomes[edge.outcome]}"
    return {"outcome": edge.outcome, "title": title, "line": line, "tip": f"M{x},{y}l{-7 if is_forward else 7},-4v8z"}


def layered_layout(count: int, edges: Sequence[tuple[int, int]]) -> tuple[list[Position], list[list[Position]]]:
    """Return the layout of a graph by Sugiyama's method: the position of each node, and positions along each edge.

    An edge, of indices of caller and callee, has one position for each layer that it crosses.
    """
    igraph = library("igraph", "the picture of the call graph", "explain")
    graph = igraph.Graph(n=count, edges=list(edges), directed=True)
    layers = [round(layer) for _, layer in graph.layout_sugiyama().coords]
    paths, pieces = [], []
    for caller, callee in edges:
        # A node in each layer between them lets a long edge pass between the other nodes.
        step = 1 if layers[callee] > layers[caller] else -1
        between = range(layers[caller] + step, layers[callee], step)
        path = [caller, *range(len(layers), len(layers) + len(between)), callee]
        layers += between
        paths.append(path)
        pieces += [pair if step > 0 else pair[::-1] for pair in pairwise(path)]
    graph = igraph.Graph(n=len(layers), edges=pieces, directed=True)
    heights = [height for height, _ in graph.layout_sugiyama(layers=layers, maxiter=_MAX_ITERATIONS).coords]
    top = min(heights, default=0.0)
    positions = [(layer, height - top) for layer, height in zip(layers, heights, strict=True)]
    return positions[:count], [[positions[node] for node in path] for path in paths]
