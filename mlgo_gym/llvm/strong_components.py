"""The strongly connected components of a directed graph, by Tarjan's algorithm."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def strong_components(successors: Mapping[Node, Sequence[Node]]) -> list[set[Node]]:
    """Return the components of a graph, each after all that it leads to.

    The algorithm keeps its own stack, since chains of calls may be longer than Python's.

    Args:
        successors: The successors of each node; each of them is a key too.
    """
    order: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    path: list[Node] = []
    open_nodes: set[Node] = set()
    found: list[set[Node]] = []
    for root in successors:
        if root in order:
            continue
        work = [(root, iter(successors[root]))]
        while work:
            node, remaining = work[-1]
            if node not in order:
                order[node] = lowest[node] = len(order)
                path.append(node)
                open_nodes.add(node)
            for successor in remaining:
                if successor not in order:
                    work.append((successor, iter(successors[successor])))
                    break
                if successor in open_nodes:
                    lowest[node] = min(lowest[node], order[successor])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == order[node]:
                    start = path.index(node)
                    found.append(set(path[start:]))
                    open_nodes.difference_update(path[start:])
                    del path[start:]
    return found
