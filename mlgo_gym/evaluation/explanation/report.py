"""An explanation as text for a terminal of 80 columns, and as an HTML page with a picture of the call graph."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from mlgo_gym.compiler.decision import context_of, functions_of
from mlgo_gym.episode.attribution.inline_compile import answers_by_call_site
from mlgo_gym.evaluation.explanation.explanation import Difference, Explanation, FeatureEffect
from mlgo_gym.evaluation.explanation.names import (
    readable,
    readable_context,
    short_context,
    shortened,
    signed,
)
from mlgo_gym.extras import library, templates

_TEMPLATES = Path(__file__).with_name("templates")

WIDTH = 80
_MAX_FUNCTIONS, _MAX_PAGE_FUNCTIONS = 12, 30
_MAX_FEATURES = 6
_MAX_DECISIVE = 3


def as_text(explanation: Explanation) -> str:
    """Return an explanation in lines of at most 80 columns."""
    return "\n".join(_lines(explanation))


def _lines(explanation: Explanation) -> Iterator[str]:
    first, second = explanation.policies
    yield f"{explanation.module}, clang {explanation.clang}: {second} against {first}\n"
    width = max(len("plain clang"), len(first), len(second))
    yield f"  {'plain clang':<{width}} {explanation.baseline:>11,} bytes"
    for name, text in ((first, explanation.first.text), (second, explanation.second.text)):
        yield f"  {name:<{width}} {text:>11,} bytes {text / max(explanation.baseline, 1) - 1:+8.2%}"
    yield ""
    if not explanation.differences:
        yield _filled(f"Both policies give the same answers to all {len(explanation.second.decisions)} calls.")
        return
    yield _filled(overview(explanation))
    yield f"\nCalls with different answers, {second} against {first}"
    for number, measured in enumerate(explanation.measured, start=1):
        yield ""
        yield from _measured(number, measured, explanation.policies)
    if rest := explanation.unmeasured:
        total = sum(difference.credited for difference in rest)
        every = len(explanation.differences)
        yield ""
        yield _filled(f"{len(rest):,} more calls, with {total:+,.0f} bytes of credit in total: --show {every}")
    yield f"\n{'Functions that changed':<42}{shortened(first, 12):>12}{shortened(second, 12):>13}{'change':>11}"
    for function in explanation.functions[:_MAX_FUNCTIONS]:
        name = shortened(readable(function.symbol), 40)
        yield f"  {name:<40}{function.first:>12,}{function.second:>13,}{function.change:>+11,}"
    if others := explanation.functions[_MAX_FUNCTIONS:]:
        yield f"  {f'{len(others):,} more':<65}{sum(function.change for function in others):>+11,}"


def overview(explanation: Explanation) -> str:
    """Return a summary of the difference in a few sentences."""
    first, second = explanation.policies
    count, change = len(explanation.differences), explanation.change
    inlined = sum(difference.decision.answer for difference in explanation.differences)
    size = f"{abs(change):,} bytes {'larger' if change > 0 else 'smaller'}" if change else "of equal size"
    sentences = [
        f"{second} decides {len(explanation.second.decisions):,} calls, {first} {len(explanation.first.decisions):,}.",
        f"{count:,} answers differ: {second} inlines {inlined:,} of them and keeps {count - inlined:,}.",
        f"The code of {second} is {size}; {len(explanation.functions):,} functions changed.",
    ]
    if explanation.only_first:
        sentences.append(f"{first} also decides {explanation.only_first:,} other calls against clang's own choice.")
    return " ".join(sentences)


def _measured(number: int, difference: Difference, policies: tuple[str, str]) -> Iterator[str]:
    decision = difference.decision
    first, second = (shortened(name, 20) for name in policies)
    default = "inlines" if decision.default else "keeps"
    exact = " (exact)" if difference.exact else ""
    yield f"{number:>3}. {short_context(decision.context, 34)} calls {shortened(readable(decision.callee), 34)}"
    answers = f"{first} {answer_text(difference.first)}, {second} {answer_text(decision.answer)}"
    yield f"     {answers} (clang {default} it)"
    yield f"     credit {difference.credited:+,.0f}{exact}, measured {difference.measured or 0:+,} bytes"
    for name in difference.random_policies:
        yield f"     {name} is random: it answers this call in two ways"
    for feature in difference.features[:_MAX_FEATURES]:
        mark = "  !" if feature.decisive_for else ""
        value, median = number_text(feature.value), number_text(feature.median)
        yield f"     {feature.name:<37} {value:>9}  median {median:>8}{mark}"
    if decisive := [feature for feature in difference.features if feature.decisive_for]:
        yield _filled(f"! {decisive_text(decisive)}", 5)


def decisive_text(decisive: Sequence[FeatureEffect]) -> str:
    """Return a sentence about decisive features, those with the largest logit changes first."""
    by_policies: dict[tuple[str, ...], list[FeatureEffect]] = {}
    for feature in decisive:
        by_policies.setdefault(feature.decisive_for, []).append(feature)
    sentences = []
    for names, features in by_policies.items():
        features.sort(key=lambda feature: -max(map(abs, feature.logit_changes.values()), default=0.0))
        values = [f"{feature.name} were {number_text(feature.median)}" for feature in features]
        hidden = len(values) - _MAX_DECISIVE
        more = f", or any of {hidden} others its median" if hidden > 0 else ""
        sentences.append(
            f"{' and '.join(names)} would answer differently if {' or '.join(values[:_MAX_DECISIVE])}{more}"
        )
    return "; ".join(sentences)


def answer_text(answer: int | None) -> str:
    """Return an answer in words."""
    return "has no such call" if answer is None else "inlines" if answer else "keeps the call"


def number_text(value: float) -> str:
    """Return a number without needless digits."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.3g}"


def _filled(text: str, indent: int = 0) -> str:
    return fill(text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent)


def as_page(explanation: Explanation, command: str) -> str:
    """Return an explanation as HTML, with the command that reproduces it."""
    environment = templates(_TEMPLATES, "a page of HTML", "explain")
    environment.filters |= {
        "answer": answer_text,
        "decisive": lambda features: decisive_text([feature for feature in features if feature.decisive_for]),
        "kind": lambda change: "more" if change > 0 else "less" if change < 0 else "",
        "number": number_text,
        "readable": readable,
        "short_context": short_context,
        "shortened": shortened,
        "signed": signed,
    }
    graph = call_graph(explanation) if explanation.differences else None
    markup = library("markupsafe", "a page of HTML", "explain").Markup
    text: str = environment.get_template("explanation.html").render(
        command=command,
        explanation=explanation,
        first=explanation.policies[0],
        second=explanation.policies[1],
        graph=graph,
        max_functions=_MAX_PAGE_FUNCTIONS,
        overview=overview(explanation),
        picture="" if graph is None else markup(picture(graph, explanation.policies)),
    )
    return text


MAX_NODES = 30
"""Maximum number of nodes in a readable picture."""

_OUTCOMES = "both-keep", "both-inline", "first-inlines", "second-inlines"
BOTH_KEEP, BOTH_INLINE, FIRST_INLINES, SECOND_INLINES = _OUTCOMES
"""Outcomes of a call; an edge has the last of these that occurs among its calls."""


Corner = tuple[int, int]
"""The left and the upper edge of a node, in pixels."""

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
    """A part of a call graph, and the number of differing nodes that it does not contain."""

    nodes: list[Node]
    edges: list[Edge]
    hidden_nodes: int


def call_graph(explanation: Explanation, limit: int = MAX_NODES) -> CallGraph:
    """Return the first `limit` nodes in which two policies differ, by decisions or bytes, and their calls."""
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
    nodes = [Node(name, *sizes[name]) for name in shown]
    return CallGraph(nodes, _edges(explanation, contexts, shown), max(0, len(ranked) - limit))


def _merged_contexts(contexts: Iterable[str]) -> dict[str, str]:
    """Return the node of each function; contexts that overlap, in different compiles, are one node."""
    members: dict[str, set[str]] = {}
    for context in contexts:
        merged = set(functions_of(context))
        for name in tuple(merged):
            merged |= members.get(name, set())
        members.update(dict.fromkeys(merged, merged))
    return {name: context_of(merged) for name, merged in members.items()}


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
    """Return a call graph as SVG, callers to the left of their callees, in the layers of Sugiyama's method.

    Nodes have the classes `node` and `grown`, `shrunk` or `same`; edges have `edge` and their outcome. Each has a
    title, which browsers show at the pointer.
    """
    igraph = library("igraph", "the picture of the call graph", "explain")
    calls = igraph.Graph(n=len(graph.nodes), edges=[(edge.caller, edge.callee) for edge in graph.edges], directed=True)
    # Before igraph 1.0 places of the bends of long edges follow those of the nodes.
    places = calls.layout_sugiyama(maxiter=_MAX_ITERATIONS).coords[: len(graph.nodes)]
    top = min((height for height, _ in places), default=0.0)
    corners = [(round(_MARGIN + layer * _COLUMN), round(_MARGIN + (height - top) * _ROW)) for height, layer in places]
    # Differing edges are drawn last, on top.
    edges = sorted(graph.edges, key=lambda edge: edge.outcome in (FIRST_INLINES, SECOND_INLINES))
    text: str = (
        templates(_TEMPLATES, "a picture of a call graph", "explain")
        .get_template("call_graph.svg")
        .render(
            width=max(x for x, _ in corners) + _WIDTH + _MARGIN,
            height=max(y for _, y in corners) + _HEIGHT + _MARGIN,
            node_width=_WIDTH,
            node_height=_HEIGHT,
            nodes=[_node(node, corner, policies) for node, corner in zip(graph.nodes, corners, strict=True)],
            edges=[_edge(graph, edge, corners[edge.caller], corners[edge.callee], policies) for edge in edges],
        )
    )
    return text


def _node(node: Node, corner: Corner, policies: tuple[str, str]) -> dict[str, Any]:
    change = node.second - node.first
    sizes = f"{node.first:,}" if node.first else "no code of its own"
    if change:
        sizes = f"{f'{node.first:,}' if node.first else 'new'} → {f'{node.second:,}' if node.second else 'removed'}"
    return {
        "x": corner[0],
        "y": corner[1],
        "kind": "grown" if change > 0 else "shrunk" if change < 0 else "same",
        "title": f"{readable_context(node.context)}: {node.first:,} bytes, {node.second:,} under {policies[1]}",
        "name": short_context(node.context, _CHARACTERS),
        "sizes": sizes,
        "change": signed(change) if change else "",
    }


def _edge(graph: CallGraph, edge: Edge, start: Corner, end: Corner, policies: tuple[str, str]) -> dict[str, str]:
    is_forward = end[0] >= start[0]
    (x, y), (tip, tip_y) = ((left, top + _HEIGHT // 2) for left, top in (start, end))
    x, tip = (x + _WIDTH, tip) if is_forward else (x, tip + _WIDTH)
    bend = (tip - x) // 2
    line = f"M{x},{y}C{x + bend},{y} {tip - bend},{tip_y} {tip},{tip_y}"
    outcomes = {
        BOTH_KEEP: "kept by both",
        BOTH_INLINE: "inlined by both",
        FIRST_INLINES: f"inlined by {policies[0]} alone",
        SECOND_INLINES: f"inlined by {policies[1]} alone",
    }
    caller, callee = (readable_context(graph.nodes[node].context) for node in (edge.caller, edge.callee))
    calls = f"{edge.calls} calls" if edge.calls > 1 else "call"
    title = f"{caller} → {callee}: {calls} {outcomes[edge.outcome]}"
    return {
        "outcome": edge.outcome,
        "title": title,
        "line": line,
        "tip": f"M{tip},{tip_y}l{-7 if is_forward else 7},-4v8z",
    }
