"""A call graph as an SVG picture that a page holds; its colours are those of the page."""

from __future__ import annotations

from html import escape

from mlgo_gym.explanation.call_graph import CallGraph, Edge, Node
from mlgo_gym.explanation.graph_layout import Place, layered
from mlgo_gym.explanation.names import readable_component, short_component
from mlgo_gym.explanation.text import signed

_WIDTH, _HEIGHT = 196, 40
_COLUMN, _ROW = 268, 54
_MARGIN = 12
_CHARACTERS = 23


def picture(graph: CallGraph, policies: tuple[str, str]) -> str:
    """Return a call graph as SVG, callers to the left of what they call.

    Classes name what is shown: `node grown`, `shrunk` and `same`; `edge` and the fate of its calls. Each node and edge
    has a title, which browsers show where the pointer is.

    Raises:
        MissingExtraError: igraph is not installed.
    """
    layout = layered(len(graph.nodes), [(edge.caller, edge.callee) for edge in graph.edges])
    every = [place for path in layout.edges for place in path] + layout.nodes
    width = max((column for column, _ in every), default=0) * _COLUMN + _WIDTH + 2 * _MARGIN
    height = max((row for _, row in every), default=0) * _ROW + _HEIGHT + 2 * _MARGIN
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    drawn = [
        f'<svg class="graph" xmlns="http://www.w3.org/2000/svg" role="img" {size}>',
        f"<title>{escape(f'Calls among {len(graph.nodes)} functions')}</title>",
    ]
    # What differs lies on top.
    edges = sorted(
        zip(graph.edges, layout.edges, strict=True), key=lambda pair: pair[0].fate.startswith("both"), reverse=True
    )
    drawn += [_edge(graph, edge, path, policies) for edge, path in edges]
    drawn += [_node(node, place, policies) for node, place in zip(graph.nodes, layout.nodes, strict=True)]
    return "\n".join((*drawn, "</svg>"))


def _corner(place: Place) -> tuple[float, float]:
    return _MARGIN + place[0] * _COLUMN, _MARGIN + place[1] * _ROW


def _node(node: Node, place: Place, policies: tuple[str, str]) -> str:
    left, top = _corner(place)
    change = node.second - node.first
    kind = "grown" if change > 0 else "shrunk" if change < 0 else "same"
    if not node.first and not node.second:
        below = "no code of its own"
    elif not node.second:
        below = f"{node.first:,} → gone"
    elif not node.first:
        below = f"new → {node.second:,}"
    else:
        below = f"{node.first:,} → {node.second:,}" if change else f"{node.first:,}"
    title = (
        f"{readable_component(node.component)}: {node.first:,} bytes by {policies[0]}, {node.second:,} by {policies[1]}"
    )
    return (
        f'<g class="node {kind}"><title>{escape(title)}</title>'
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="5"/>'
        f'<text x="{left + 9:.0f}" y="{top + 17:.0f}">{escape(short_component(node.component, _CHARACTERS))}</text>'
        f'<text class="bytes" x="{left + 9:.0f}" y="{top + 32:.0f}">{below}</text>'
        f'<text class="bytes change" x="{left + _WIDTH - 9:.0f}" y="{top + 32:.0f}">{signed(change) if change else ""}'
        "</text></g>"
    )


def _edge(graph: CallGraph, edge: Edge, path: list[Place], policies: tuple[str, str]) -> str:
    points = []
    for place in path:
        left, top = _corner(place)
        points += [(left, top + _HEIGHT / 2), (left + _WIDTH, top + _HEIGHT / 2)]
    forward = path[-1][0] >= path[0][0]
    if not forward:
        points = [pair for at in range(0, len(points), 2) for pair in (points[at + 1], points[at])]
    points = points[1:-1]
    x, y = points[0]
    line = f"M{x:.0f},{y:.0f}"
    bend = (_COLUMN - _WIDTH) * (0.5 if forward else -0.5)
    for number, (nx, ny) in enumerate(points[1:]):
        # Straight on beside the nodes of a layer, and curved from one layer to the next.
        curve = f"C{x + bend:.0f},{y:.0f} {nx - bend:.0f},{ny:.0f} "
        line += f"{'L' if number % 2 else curve}{nx:.0f},{ny:.0f}"
        x, y = nx, ny
    fates = {
        "both-keep": "kept by both",
        "both-inline": "inlined by both",
        "first-inlines": f"inlined by {policies[0]} alone",
        "second-inlines": f"inlined by {policies[1]} alone",
    }
    caller, callee = (readable_component(graph.nodes[number].component) for number in (edge.caller, edge.callee))
    calls = f"{edge.calls} calls" if edge.calls > 1 else "call"
    title = f"{caller} → {callee}: {calls} {fates[edge.fate]}"
    tip, back = points[-1], (-7 if forward else 7)
    arrow = f"M{tip[0]:.0f},{tip[1]:.0f}l{back},-4v8z"
    return (
        f'<g class="edge {edge.fate}"><title>{escape(title)}</title><path class="line" d="{line}"/>'
        f'<path class="tip" d="{arrow}"/></g>'
    )
