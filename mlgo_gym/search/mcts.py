"""Monte-Carlo tree search (UCT: Kocsis and Szepesvári, 2006) with clang's own choices as rollout."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mlgo_gym.search.branch_cache import BranchCache
from mlgo_gym.search.local_search import DEFAULT_COMPILES
from mlgo_gym.search.search_space import Branch, Leaf, SearchSpace

EXPLORATION = 0.5
"""Exploration constant of UCT, for rewards scaled to the range seen at a node."""


@dataclass(slots=True)
class _Node:
    """A visited decision, after the actions of `path`."""

    path: tuple[int, ...]
    leaf: Leaf  # of clang's own choices from here
    untried: list[int]  # without clang's own choice
    children: dict[int, _Node | None] = field(default_factory=dict)  # None: everything below was tried
    scores: dict[int, tuple[int, float]] = field(default_factory=dict)  # number of visits, sum of the rewards

    @property
    def default(self) -> int:
        """Clang's own choice."""
        return self.leaf.actions[len(self.path)]

    @property
    def is_exhausted(self) -> bool:
        """Whether everything below was tried."""
        return not self.untried and self.default in self.children and not any(self.children.values())

    def score(self, action: int, reward: float) -> None:
        """Add the reward of an action."""
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

        exhausted = {action for action, child in self.children.items() if child is None}
        return max((action for action in self.scores if action not in exhausted), key=bound)


def mcts(space: SearchSpace, seed: int = 0) -> Leaf:
    """Return the best leaf of tree search within the budget, or 100 compiles.

    Each iteration descends by UCT, tries one new action, and rolls out with clang's own choices. The leaf of clang's
    own choice at the new node is then known without another compile. The seed gives the order of untried actions.
    """
    generator = np.random.default_rng(seed)
    with space.root() as root, BranchCache(root) as cache:
        best = root.fork().roll_out()
        tree = _Tree(root, cache, generator, best)
        while not space.budget.is_spent_after(DEFAULT_COMPILES):
            leaf = tree.grow()
            if leaf is None:
                break
            if leaf.cost < best.cost:
                best = leaf
    return best


class _Tree:
    def __init__(self, root: Branch, cache: BranchCache, generator: np.random.Generator, first: Leaf) -> None:
        self._cache = cache
        self._generator = generator
        self._baseline = max(first.baseline, 1.0)
        self._root = self._node(root.actions, root.candidates(), first)

    def grow(self) -> Leaf | None:
        """Try a new action and return its leaf; None if everything was tried."""
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
        """Return the path of UCT to a node with untried actions; no node if the compile ends first."""
        visited: list[tuple[_Node, int]] = []
        node = self._root
        while not node.untried:
            action = node.choose()
            visited.append((node, action))
            if action not in node.children:
                node.children[action] = self._after_default(node)
            child = node.children[action]
            if child is None:
                return visited, None
            node = child
        return visited, node

    def _after_default(self, node: _Node) -> _Node | None:
        """Return the node after clang's own choice, whose leaf is known; None if the compile ends there."""
        with self._cache.at(node.path) as branch:
            branch.take(node.default)
            if branch.decision is None:
                return None
            self._cache.keep(branch)
            return self._node(branch.actions, branch.candidates(), node.leaf)

    def _try(self, visited: list[tuple[_Node, int]], node: _Node) -> Leaf:
        action = node.untried.pop()
        visited.append((node, action))
        with self._cache.at(node.path) as branch:
            branch.take(action)
            if branch.decision is None:
                leaf, node.children[action] = branch.leaf(), None
            else:
                path, candidates = branch.actions, branch.candidates()
                self._cache.keep(branch)
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
