"""Monte-Carlo tree search (UCT: Kocsis and Szepesvári, 2006) with clang's own choices as rollout."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from mlgo_gym.search.branch import Branch, Leaf, SearchSpace
from mlgo_gym.search.random_search import UNLIMITED_COMPILES

EXPLORATION = 0.5
"""The constant of UCT, on rewards that are scaled to the range that was seen."""

MOST_SNAPSHOTS = 32
"""How many compiles wait at inner nodes at once; the others are reached again from the nearest."""


@dataclass(slots=True)
class _Node:
    """A decision that was visited."""

    path: tuple[int, ...]
    untried: list[int]
    visits: int = 0
    value: float = 0.0
    children: dict[int, _Node | None] = field(default_factory=dict)
    scores: dict[int, tuple[int, float]] = field(default_factory=dict)


class _Snapshots:
    """Compiles that wait at nodes, the least recently used of which are let go."""

    def __init__(self, root: Branch) -> None:
        self._root = root
        self._kept: OrderedDict[tuple[int, ...], Branch] = OrderedDict()

    def at(self, path: tuple[int, ...]) -> Branch:
        """Return a copy of the compile behind a path; it is the caller's."""
        if path in self._kept:
            self._kept.move_to_end(path)
            return self._kept[path].fork()
        start = next((path[:end] for end in range(len(path) - 1, 0, -1) if path[:end] in self._kept), ())
        branch = self._kept[start].fork() if start else self._root.fork()
        try:
            for action in path[len(start) :]:
                branch.take(action)
        except BaseException:
            branch.close()
            raise
        return branch

    def keep(self, branch: Branch) -> None:
        """Keep a copy of a compile that waits."""
        self._kept[branch.actions] = branch.fork()
        if len(self._kept) > MOST_SNAPSHOTS:
            _, oldest = self._kept.popitem(last=False)
            oldest.close()

    def close(self) -> None:
        for branch in self._kept.values():
            branch.close()
        self._kept.clear()


def mcts(space: SearchSpace, seed: int = 0) -> Leaf:
    """Return the best leaf that tree search finds within the budget.

    Each iteration goes down the tree by UCT, tries one new action, and lets clang's own choices finish the compile.

    Args:
        space: the decisions; where its budget has no limit, 100 compiles are made.
        seed: the source of chance, for the order in which actions are tried.
    """
    generator = np.random.default_rng(seed)
    with space.root() as root:
        snapshots = _Snapshots(root)
        try:
            best = root.fork().roll_out()
            # Every path down the tree ends once all its actions were tried: then the tree is exhausted.
            tree = _node(root, generator)
            while not space.budget.is_spent and not _exhausted(tree):
                if not space.budget.is_limited and space.budget.spent >= UNLIMITED_COMPILES:
                    break
                leaf = _iterate(tree, snapshots, generator, best.baseline)
                if leaf.cost < best.cost:
                    best = leaf
        finally:
            snapshots.close()
    return best


def _node(branch: Branch, generator: np.random.Generator) -> _Node:
    untried = branch.candidates()
    default = branch.default
    others = [action for action in untried if action != default]
    generator.shuffle(others)
    # The end of the list is tried first: clang's own choice.
    return _Node(branch.actions, [*others, default])


def _exhausted(node: _Node) -> bool:
    return not node.untried and all(child is None for child in node.children.values())


def _iterate(tree: _Node, snapshots: _Snapshots, generator: np.random.Generator, baseline: float) -> Leaf:
    visited: list[tuple[_Node, int]] = []
    node = tree
    while not node.untried:
        action = _choose(node)
        visited.append((node, action))
        child = node.children[action]
        assert child is not None
        node = child
    action = node.untried.pop()
    visited.append((node, action))
    with snapshots.at(node.path) as branch:
        branch.take(action)
        if branch.decision is None:
            node.children[action] = None
            leaf = branch.leaf()
        else:
            node.children[action] = _node(branch, generator)
            snapshots.keep(branch)
            leaf = branch.roll_out()
    reward = (baseline - leaf.cost) / max(baseline, 1.0)
    for parent, taken in visited:
        parent.visits += 1
        count, total = parent.scores.get(taken, (0, 0.0))
        parent.scores[taken] = (count + 1, total + reward)
    for parent, taken in reversed(visited):
        child = parent.children[taken]
        if child is not None and _exhausted(child):
            parent.children[taken] = None
    return leaf


def _choose(node: _Node) -> int:
    """Return the open action with the highest upper confidence bound."""
    means = {action: total / count for action, (count, total) in node.scores.items()}
    low, high = min(means.values()), max(means.values())
    scale = (high - low) or 1.0

    def bound(action: int) -> float:
        count = node.scores[action][0]
        return (means[action] - low) / scale + EXPLORATION * math.sqrt(math.log(node.visits) / count)

    return max((action for action, child in node.children.items() if child is not None), key=bound)
