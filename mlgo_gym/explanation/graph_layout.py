"""Where the functions of a call graph stand in a picture: in layers, callers to the left of what they call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from mlgo_gym.errors import MissingExtraError

Place = tuple[int, float]
"""The layer, from 0 on the left, and the height in rows."""

_SWEEPS = 12
_LANE = 0.2
"""The rows that an edge takes where it passes a layer; a node takes 1."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A layered drawing.

    Attributes:
        nodes: the place of each node.
        edges: the places that each edge goes through, from the caller's to the callee's.
    """

    nodes: list[Place]
    edges: list[list[Place]]


def layered(count: int, edges: Sequence[tuple[int, int]]) -> Layout:
    """Place nodes in layers with few crossings and short edges.

    Layers and their order are those of Sugiyama's method, by igraph: an edge over several layers has a place in each,
    so that it passes between the nodes there. Heights are the nearest to those of the neighbours that keep the order
    and the distances, which is an isotonic regression in each layer.

    Args:
        count: how many nodes there are.
        edges: pairs of the numbers of nodes.

    Raises:
        MissingExtraError: igraph or SciPy is not installed.
    """
    if not count:
        return Layout([], [])
    layers, order, paths = _ordered(count, edges)
    heights = _heights(count, order, [pair for path in paths for pair in pairwise(path)])
    places = list(zip(layers, (heights - heights.min()).tolist(), strict=True))
    return Layout(places[:count], [[places[node] for node in path] for path in paths])


def _ordered(count: int, edges: Sequence[tuple[int, int]]) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """Return each place's layer, the places of each layer in order, and the places that each edge goes through."""
    try:
        import igraph
    except ImportError as error:
        raise MissingExtraError("the picture of the call graph", "explain") from error
    graph = igraph.Graph(n=count, edges=list(edges), directed=True)
    layers = [round(y) for _, y in graph.layout_sugiyama().coords]
    paths, pieces = [], []
    for caller, callee in edges:
        start, end = layers[caller], layers[callee]
        step = 1 if end > start else -1
        between = range(start + step, end, step)
        path = [caller, *range(len(layers), len(layers) + len(between)), callee]
        layers += between
        paths.append(path)
        pieces += [pair if step > 0 else pair[::-1] for pair in pairwise(path)]
    whole = igraph.Graph(n=len(layers), edges=pieces, directed=True)
    across = [x for x, _ in whole.layout_sugiyama(layers=layers, maxiter=500).coords]
    order: list[list[int]] = [[] for _ in range(max(layers) + 1)]
    for place in sorted(range(len(layers)), key=across.__getitem__):
        order[layers[place]].append(place)
    return layers, order, paths


def _heights(count: int, order: Sequence[Sequence[int]], pieces: Sequence[tuple[int, int]]) -> npt.NDArray[np.float64]:
    """Return the height of each place in rows."""
    try:
        from scipy.optimize import isotonic_regression
    except ImportError as error:
        raise MissingExtraError("the picture of the call graph", "explain") from error
    neighbours: dict[int, list[int]] = defaultdict(list)
    for one, other in pieces:
        neighbours[one].append(other)
        neighbours[other].append(one)
    heights = np.zeros(sum(map(len, order)))
    offsets = []
    for members in order:
        takes = [1.0 if place < count else _LANE for place in members]
        # The middles of what lies above each other are half of both apart.
        gaps = [(one + other) / 2 for one, other in pairwise(takes)]
        offsets.append(np.array([0.0, *accumulate(gaps)][: len(members)]))
        heights[members] = offsets[-1] - offsets[-1].mean()
    for sweep in range(_SWEEPS):
        for layer in range(len(order)) if sweep % 2 == 0 else reversed(range(len(order))):
            members, offset = order[layer], offsets[layer]
            wanted = np.array([np.mean(heights[neighbours[place] or [place]]) for place in members])
            heights[members] = isotonic_regression(wanted - offset).x + offset
    return heights
