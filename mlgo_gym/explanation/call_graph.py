"""The part of a module's call graph in which two policies differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlgo_gym.explanation.explanation import Explanation

MOST_NODES = 30
"""The most functions of a picture that can still be read."""

MOST_EDGES = 60
"""And the most edges; beyond that, those on which both agree are left out where others tie a node to the rest."""

BOTH_KEEP, BOTH_INLINE, FIRST_INLINES, SECOND_INLINES = "both-keep", "both-inline", "first-inlines", "second-inlines"
"""What became of the calls of an edge; the later ones are shown where calls of one edge have different fates."""

_ORDER = (BOTH_KEEP, BOTH_INLINE, FIRST_INLINES, SECOND_INLINES)


@dataclass(frozen=True, slots=True)
class Node:
    """A function, or several that call each other.

    Attributes:
        component: its symbol, or their symbols with `", "` between.
        first: its bytes as the first policy decides; 0 where no code of its own is left.
        second: its bytes as the second decides.
    """

    component: str
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Edge:
    """The calls from one node in another.

    Attributes:
        caller: the number of the calling node.
        callee: the number of the called one.
        fate: what became of them.
        calls: how many there are of that fate.
    """

    caller: int
    callee: int
    fate: str
    calls: int


@dataclass(frozen=True, slots=True)
class CallGraph:
    """A part of a call graph.

    Attributes:
        nodes: the functions.
        edges: the calls among them.
        left_out: how many functions in which something differs are not in it, for want of room.
        calls_left_out: how many edges on which both agree are not in it, for want of room.
    """

    nodes: list[Node]
    edges: list[Edge]
    left_out: int
    calls_left_out: int


def call_graph(explanation: Explanation, most: int = MOST_NODES) -> CallGraph:
    """Return the functions in which two policies differ, by their decisions or in bytes, and the calls among them."""
    first, second = explanation.first, explanation.second
    decisions = (*first.decisions, *second.decisions)
    components = _components({each.component for each in decisions})
    sizes: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    weight: dict[str, float] = defaultdict(float)
    for change in explanation.functions:
        weight[components.get(change.symbol, change.symbol)] += abs(change.change)
    changed = {change.symbol: (change.first, change.second) for change in explanation.functions}
    names = {*first.functions.functions, *second.functions.functions, *changed}
    for name in names:
        pair = changed.get(name, (first.functions.size(name), second.functions.size(name)))
        total = sizes[components.get(name, name)]
        total[0], total[1] = total[0] + pair[0], total[1] + pair[1]
    for each in explanation.differences:
        bytes_of = 1.0 + abs(each.credited if each.measured is None else each.measured)
        weight[components[each.decision.functions[0]]] += bytes_of
        if each.decision.callee:
            weight[components.get(each.decision.callee, each.decision.callee)] += bytes_of
    ranked = sorted(weight, key=lambda name: (-weight[name], name))
    chosen = {name: number for number, name in enumerate(ranked[:most])}
    nodes = [Node(name, sizes[name][0], sizes[name][1]) for name in chosen]
    edges = _edges(explanation, components, chosen)
    shown = _readable_number(edges)
    return CallGraph(nodes, shown, max(0, len(ranked) - most), len(edges) - len(shown))


def _components(named: Iterable[str]) -> dict[str, str]:
    """Return the node of each function: those that call each other in one of the compiles share one."""
    members: dict[str, set[str]] = {}
    for component in named:
        together = set(component.split(", "))
        for name in tuple(together):
            together |= members.get(name, set())
        members.update(dict.fromkeys(together, together))
    return {name: ", ".join(sorted(together)) for name, together in members.items()}


def _readable_number(edges: Sequence[Edge]) -> list[Edge]:
    """Return all edges, or where those are too many the differing ones and what ties the other nodes to the rest."""
    if len(edges) <= MOST_EDGES:
        return list(edges)
    differing = [edge for edge in edges if edge.fate in (FIRST_INLINES, SECOND_INLINES)]
    tied = {end for edge in differing for end in (edge.caller, edge.callee)}
    shown = list(differing)
    for edge in edges:
        if edge not in differing and not {edge.caller, edge.callee} <= tied:
            shown.append(edge)
            tied |= {edge.caller, edge.callee}
    return shown


def _edges(explanation: Explanation, components: Mapping[str, str], chosen: Mapping[str, int]) -> list[Edge]:
    answers = [
        {(*each[:3], each.callee): each.answer for each in made.decisions}
        for made in (explanation.first, explanation.second)
    ]
    counts: dict[tuple[int, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for place in answers[0].keys() | answers[1].keys():
        component, callee = components[place[0].partition(", ")[0]], components.get(place[3], place[3])
        if component not in chosen or callee not in chosen or component == callee:
            continue
        before, after = answers[0].get(place), answers[1].get(place)
        # Where one was never asked, the call came with code that the other inlined.
        before, after = (after if before is None else before), (before if after is None else after)
        fate = (BOTH_INLINE if after else BOTH_KEEP) if before == after else FIRST_INLINES if before else SECOND_INLINES
        counts[chosen[component], chosen[callee]][fate] += 1
    edges = []
    for (start, end), fates in sorted(counts.items()):
        fate = max(fates, key=_ORDER.index)
        edges.append(Edge(start, end, fate, fates[fate]))
    return edges
