"""Monte-Carlo tree search (UCT: Kocsis and Szepesvári, 2006) with clang's own choices as rollout."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mlgo_gym.search.random_search import UNLIMITED_COMPILES
from mlgo_gym.search.search_space import Branch, Leaf, SearchSpace
from mlgo_gym.search.snapshots import Snapshots

EXPLORATION = 0.5
"""The constant of UCT, on rewards that are scaled to the range that was seen."""


@dataclass(slots=True)
class _Node:
    """A decision that was visited.

    Attributes:
        path: the actions that lead to it.
        leaf: where clang's own choices lead from here.
        untried: the other actions that were not tried yet.
        children: the nodes below the actions that were tried; None where everything below has been tried.
        scores: how often each action was tried, and the sum of the rewards.
    """

    path: tuple[int, ...]
    leaf: Leaf
    untried: list[int]
    children: dict[int, _Node | None] = field(default_factory=dict)
    scores: dict[int, tuple[int, float]] = field(default_factory=dict)

    @property
    def default(self) -> int:
        """clang's own choice here, whose outcome is the leaf."""
        return self.leaf.actions[len(self.path)]

    @property
    def is_exhausted(self) -> bool:
        """Whether everything below it has been tried; its default child is there once it was looked at."""
        return not self.untried and self.default in self.children and not any(self.children.values())

    def score(self, action: int, reward: float) -> None:
        """Record the outcome of an action."""
        count, total = self.scores.get(action, (0, 0.0))
        self.scores[action] = (count + 1, total + reward)

    def choose(self) -> int:
        """Return the open action with the highest upper confidence bound."""
        visits = sum(count for count, _ in self.scores.values())
        means = {action: total / count for action, (count, total) in self.scores.items()}
        low, high = min(means.values()), max(means.values())
        scale = (high - low) or 1.0

        def bound(action: int) -> float:
            count = self.scores[action][0]
            return (means[action] - low) / scale + EXPLORATION * math.sqrt(math.log(visits) / count)

        closed = {action for action, child in self.children.items() if child is None}
        return max((action for action in self.scores if action not in closed), key=bound)


def mcts(space: SearchSpace, seed: int = 0) -> Leaf:
    """Return the best leaf that tree search finds within the budget.

    Each iteration goes down the tree by UCT, tries one new action, and lets clang's own choices finish the compile.
    What clang's own choice leads to at a new node is then known without another compile.

    Args:
        space: the decisions; where its budget has no limit, 100 compiles are made.
        seed: seeds the random generator, for the order in which actions are tried.
    """
    generator = np.random.default_rng(seed)
    with space.root() as root, Snapshots(root) as snapshots:
        best = root.fork().roll_out()
        tree = _Tree(root, snapshots, generator, best)
        while not space.budget.is_spent_after(UNLIMITED_COMPILES):
            leaf = tree.grow()
            if leaf is None:
                break
            if leaf.cost < best.cost:
                best = leaf
    return best


class _Tree:
    """What was tried, from the first decision on.

    Args:
        root: waits at the first decision.
        snapshots: the compiles that wait at the nodes.
        generator: seeds the random generator.
        first: where clang's own choices lead.
    """

    def __init__(self, root: Branch, snapshots: Snapshots, generator: np.random.Generator, first: Leaf) -> None:
        self._snapshots = snapshots
        self._generator = generator
        self._baseline = max(first.baseline, 1.0)
        self._root = self._node(root.actions, root.candidates(), first)

    def grow(self) -> Leaf | None:
        """Compile once more, with an action that was not tried, and return the leaf; None when nothing is left."""
        while not self._root.is_exhausted:
            visited, node = self._descend()
            leaf = self._try(visited, node) if node is not None else None
            for parent, taken in reversed(visited):
                child = parent.children[taken]
                if child is not None and child.is_exhausted:
                    parent.children[taken] = None
            if leaf is not None:
                return leaf
        return None

    def _descend(self) -> tuple[list[tuple[_Node, int]], _Node | None]:
        """Return the path of UCT to a node with something to try; without the node if the compile ends first."""
        visited: list[tuple[_Node, int]] = []
        node = self._root
        while not node.untried:
            action = node.choose()
            visited.append((node, action))
            if action not in node.children:
                node.children[action] = self._behind_default(node)
            child = node.children[action]
            if child is None:
                return visited, None
            node = child
        return visited, node

    def _behind_default(self, node: _Node) -> _Node | None:
        """Return the node below clang's own choice, whose leaf is known; None if the compile ends there."""
        with self._snapshots.at(node.path) as branch:
            branch.take(node.default)
            if branch.decision is None:
                return None
            self._snapshots.keep(branch)
            return self._node(branch.actions, branch.candidates(), node.leaf)

    def _try(self, visited: list[tuple[_Node, int]], node: _Node) -> Leaf:
        action = node.untried.pop()
        visited.append((node, action))
        with self._snapshots.at(node.path) as branch:
            branch.take(action)
            if branch.decision is None:
                leaf, node.children[action] = branch.leaf(), None
            else:
                path, candidates = branch.actions, branch.candidates()
                self._snapshots.keep(branch)
                leaf = branch.roll_out()
                node.children[action] = self._node(path, candidates, leaf)
        for parent, taken in visited:
            parent.score(taken, self._reward(leaf))
        return leaf

    def _node(self, path: tuple[int, ...], candidates: list[int], leaf: Leaf) -> _Node:
        node = _Node(path, leaf, candidates)
        node.untried.remove(node.default)
        self._generator.shuffle(node.untried)
        node.score(node.default, self._reward(leaf))
        return node

    def _reward(self, leaf: Leaf) -> float:
        return (leaf.baseline - leaf.cost) / self._baseline
