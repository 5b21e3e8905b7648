"""A call graph as an SVG picture, callers to the left of their callees; the page's style sheet gives its colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from mlgo_gym.explanation.call_graph import (
    BOTH_INLINE,
    BOTH_KEEP,
    FIRST_INLINES,
    SECOND_INLINES,
    CallGraph,
    Edge,
    Node,
)
from mlgo_gym.explanation.names import readable_context, short_context
from mlgo_gym.explanation.text import signed
from mlgo_gym.extras import library

Position = tuple[float, float]
"""Layer, from 0 on the left, and height in rows."""

_MAX_ITERATIONS = 500

# Sizes in pixels, and the width of a name in characters.
_WIDTH, _HEIGHT = 196, 40
_COLUMN, _ROW = 268, 54
_MARGIN = 12
_CHARACTERS = 23


def picture(graph: CallGraph, policies: tuple[str, str]) -> str:
    """Return a call graph as SVG, callers to the left of their callees.

    Nodes have the classes `node` and `grown`, `shrunk` or `same`; edges have `edge` and their outcome. Each has a
    title, which browsers show at the pointer.

    Raises:
        MissingExtraError: igraph is not installed.
    """
    layout = layered_layout(len(graph.nodes), [(edge.caller, edge.callee) for edge in graph.edges])
    positions = [position for path in layout.edges for position in path] + layout.nodes
    width = max((column for column, _ in positions), default=0) * _COLUMN + _WIDTH + 2 * _MARGIN
    height = max((row for _, row in positions), default=0) * _ROW + _HEIGHT + 2 * _MARGIN
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    drawn = [
        f'<svg class="graph" xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
        f"<title>{escape(f'Calls between {len(graph.nodes)} functions')}</title>",
    ]
    # Differing edges are drawn last, on top.
    pairs = zip(graph.edges, layout.edges, strict=True)
    ordered = sorted(pairs, key=lambda pair: pair[0].outcome in (FIRST_INLINES, SECOND_INLINES))
    drawn += [_edge(graph, edge, path, policies) for edge, path in ordered]
    drawn += [_node(node, position, policies) for node, position in zip(graph.nodes, layout.nodes, strict=True)]
    return "\n".join((*drawn, "</svg>"))


def _corner(position: Position) -> tuple[float, float]:
    return _MARGIN + position[0] * _COLUMN, _MARGIN + position[1] * _ROW


def _node(node: Node, position: Position, policies: tuple[str, str]) -> str:
    left, top = _corner(position)
    change = node.second - node.first
    kind = "grown" if change > 0 else "shrunk" if change < 0 else "same"
    if change:
        first, second = f"{node.first:,}" if node.first else "new", f"{node.second:,}" if node.second else "removed"
        sizes = f"{first} → {second}"
    else:
        sizes = f"{node.first:,}" if node.first else "no code of its own"
    title = f"{readable_context(node.context)}: {node.first:,} bytes, {node.second:,} under {policies[1]}"
    return (
        f'<g class="node {kind}"><title>{escape(title)}</title>'
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="5"/>'
        f'<text x="{left + 9:.0f}" y="{top + 17:.0f}">{escape(short_context(node.context, _CHARACTERS))}</text>'
        f'<text class="bytes" x="{left + 9:.0f}" y="{top + 32:.0f}">{sizes}</text>'
        f'<text class="bytes change" x="{left + _WIDTH - 9:.0f}" y="{top + 32:.0f}">{signed(change) if change else ""}'
        "</text></g>"
    )


def _edge(graph: CallGraph, edge: Edge, path: list[Position], policies: tuple[str, str]) -> str:
    is_forward = path[-1][0] >= path[0][0]
    points: list[Position] = []
    for position in path:
        left, top = _corner(position)
        ends = [(left, top + _HEIGHT / 2), (left + _WIDTH, top + _HEIGHT / 2)]
        points += ends if is_forward else reversed(ends)
    points = points[1:-1]
    x, y = points[0]
    line = f"M{x:.0f},{y:.0f}"
    bend = (_COLUMN - _WIDTH) * (0.5 if is_forward else -0.5)
    for index, (nx, ny) in enumerate(points[1:]):
        # Straight through a layer, curved between layers.
        curve = f"C{x + bend:.0f},{y:.0f} {nx - bend:.0f},{ny:.0f} "
        line += f"{'L' if index % 2 else curve}{nx:.0f},{ny:.0f}"
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
    arrow = f"M{x:.0f},{y:.0f}l{-7 if is_forward else 7},-4v8z"
    return (
        f'<g class="edge {edge.outcome}"><title>{escape(title)}</title><path class="line" d="{line}"/>'
        f'<path class="tip" d="{arrow}"/></g>'
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """Position of each node of a layered graph, and positions along each edge, one for each layer that it crosses."""

    nodes: list[Position]
    edges: list[list[Position]]


def layered_layout(count: int, edges: Sequence[tuple[int, int]]) -> Layout:
    """Return the layout of a graph of `count` nodes by Sugiyama's method; edges are indices of caller and callee.

    Raises:
        MissingExtraError: igraph is not installed.
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
    return Layout(positions[:count], [[positions[node] for node in path] for path in paths])
