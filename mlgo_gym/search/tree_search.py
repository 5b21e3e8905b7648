"""Searches in the tree of decisions: look-ahead, beams, random changes, hill climbing and Monte-Carlo tree search.

Clang's own choices follow each tried action. Without a budget, the random searches stop after `DEFAULT_COMPILES`.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

import numpy as np

from mlgo_gym.search.search_space import Branch, Leaf, SearchSpace

BEAM_WIDTH = 4
"""Number of branches that beam search keeps at each decision."""

FLIPS = 4
"""Mean number of changed decisions per compile of random search."""

EXPLORATION = 0.5
"""Exploration constant of UCT, for rewards scaled to the range seen at a node."""

DEFAULT_COMPILES = 100
"""Number of compiles without a budget."""

MAX_BRANCHES = 32
"""Maximum number of cached compiles that wait at the same time."""


class BranchCache(AbstractContextManager["BranchCache"]):
    """Least-recently-used cache of waiting compiles by path, so that no path starts at the first decision."""

    def __init__(self, root: Branch) -> None:
        self._root = root
        self._branches: OrderedDict[tuple[int, ...], Branch] = OrderedDict()

    def _nearest(self, path: tuple[int, ...]) -> int:
        """Return the length of the longest cached prefix of a path."""
        return max((len(prefix) for prefix in self._branches if path[: len(prefix)] == prefix), default=0)

    def at(self, path: tuple[int, ...]) -> Branch:
        """Return a branch at the end of a path, forked from the nearest cached one; the caller closes it."""
        start = path[: self._nearest(path)]
        if start:
            self._branches.move_to_end(start)
        branch = (self._branches[start] if start else self._root).fork()
        with ExitStack() as on_error:
            on_error.enter_context(branch)
            for action in path[len(start) :]:
                branch.take(action)
            on_error.pop_all()
        return branch

    def add(self, branch: Branch, apart: int = 0) -> None:
        """Cache a fork of a branch, unless a prefix at most `apart` decisions shorter is cached."""
        if len(branch.actions) - self._nearest(branch.actions) > apart:
            self._branches[branch.actions] = branch.fork()
            if len(self._branches) > MAX_BRANCHES:
                self._branches.popitem(last=False)[1].close()

    def __exit__(self, *_: object) -> None:
        for branch in self._branches.values():
            branch.close()


def greedy(space: SearchSpace, _seed: int = 0) -> Leaf:
    """Return the best leaf of greedy look-ahead within the budget.

    Each decision costs one compile per action that is not on the best path; a tie keeps the best path. Passes over the
    decisions repeat as long as they find a better leaf. From the second pass on, the actions of the best path follow
    the tried action where they are legal.
    """
    with space.root() as root:
        before, follow = root.fork().roll_out(), False
        while True:
            _look_ahead(space, root.fork(), follow=follow)
            if not space.best.cost < before.cost or space.budget.is_spent:
                return space.best
            before, follow = space.best, True


def _look_ahead(space: SearchSpace, branch: Branch, *, follow: bool) -> None:
    with branch:
        while branch.decision is not None:
            for action in branch.alternatives(space.best):
                if space.budget.is_spent:
                    return
                branch.try_action(action, space.best.actions if follow else ())
            branch.take(space.best.actions[len(branch.actions)])


def beam(space: SearchSpace, _seed: int = 0) -> Leaf:
    """Return the best leaf of beam search within the budget."""
    with space.root() as root:
        branches = [(root.fork(), root.fork().roll_out())]
        try:
            while branches:
                options: list[tuple[Branch, int, Leaf]] = []
                for branch, plan in branches:
                    options.append((branch, plan.actions[len(branch.actions)], plan))
                    for action in branch.alternatives(plan):
                        if space.budget.is_spent:
                            return space.best
                        options.append((branch, action, branch.try_action(action)))
                options = sorted((option for option in options if not option[2].failed), key=lambda it: it[2].cost)
                branches = _advance(branches, options[:BEAM_WIDTH])
        finally:
            for branch, _ in branches:
                branch.close()
    return space.best


def _advance(branches: list[tuple[Branch, Leaf]], options: list[tuple[Branch, int, Leaf]]) -> list[tuple[Branch, Leaf]]:
    """Return the unfinished branches after some options, and close the old ones."""
    advanced: list[tuple[Branch, Leaf]] = []
    with ExitStack() as on_error:
        for branch, action, leaf in options:
            fork = on_error.enter_context(branch.fork())
            fork.take(action)
            if fork.decision is None:
                fork.close()
            else:
                advanced.append((fork, leaf))
        on_error.pop_all()
    for branch, _ in branches:
        branch.close()
    return advanced


def random_search(space: SearchSpace, seed: int = 0) -> Leaf:
    """Return the best leaf among random variations of clang's own choices within the budget."""
    generator = np.random.default_rng(seed)
    with space.root() as root:
        rate = min(1.0, FLIPS / len(root.fork().roll_out().actions))
        while not space.budget.is_spent_after(DEFAULT_COMPILES):
            with root.fork() as branch:
                while branch.decision is not None:
                    action = branch.default
                    if generator.random() < rate:
                        action = _draw([other for other in branch.candidates() if other != action], generator, action)
                    branch.take(action)
                branch.leaf()
    return space.best


def hill_climb(space: SearchSpace, seed: int = 0) -> Leaf:
    """Return the best leaf of hill climbing from clang's own choices within the budget.

    Each compile changes one random decision; the other actions of the current path follow where they are legal. An
    equal cost is accepted, to move along plateaus.
    """
    generator = np.random.default_rng(seed)
    with space.root() as root, BranchCache(root) as cache:
        current = root.fork().roll_out()
        while not space.budget.is_spent_after(DEFAULT_COMPILES):
            path = current.actions
            index = int(generator.integers(len(path)))
            with cache.at(path[:index]) as branch:
                cache.add(branch, apart=len(path) // MAX_BRANCHES)
                branch.take(_draw(branch.alternatives(current), generator, path[index]))
                leaf = branch.roll_out(path)
            if leaf.cost <= current.cost:
                current = leaf
    return space.best


def _draw(actions: list[int], generator: np.random.Generator, default: int) -> int:
    return actions[int(generator.integers(len(actions)))] if actions else default


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
        return self.leaf.actions[len(self.path)]

    @property
    def is_exhausted(self) -> bool:
        """Whether everything below was tried."""
        return not self.untried and self.default in self.children and not any(self.children.values())

    def score(self, action: int, leaf: Leaf) -> None:
        """Add the reward of a leaf to an action."""
        count, total = self.scores.get(action, (0, 0.0))
        self.scores[action] = (count + 1, total + (leaf.baseline - leaf.cost) / max(leaf.baseline, 1.0))

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
    """Return the best leaf of tree search (UCT: Kocsis and Szepesvári, 2006) within the budget.

    Each iteration descends by UCT, tries one new action, and rolls out with clang's own choices. The leaf of clang's
    own choice at the new node is then known without another compile. The seed gives the order of untried actions.
    """
    with space.root() as root, BranchCache(root) as cache:
        tree = _Tree(root, cache, np.random.default_rng(seed))
        while not space.budget.is_spent_after(DEFAULT_COMPILES) and tree.grow():
            pass
    return space.best


class _Tree:
    def __init__(self, root: Branch, cache: BranchCache, generator: np.random.Generator) -> None:
        self._cache, self._generator = cache, generator
        self._root = self._node(root.actions, root.candidates(), root.fork().roll_out())

    def grow(self) -> bool:
        """Try a new action; return whether there was one."""
        grown = False
        while not grown and not self._root.is_exhausted:
            visited, node = self._descend()
            if node is not None:
                self._try(visited, node)
                grown = True
            for parent, taken in reversed(visited):
                child = parent.children[taken]
                if child is not None and child.is_exhausted:
                    parent.children[taken] = None
        return grown

    def _descend(self) -> tuple[list[tuple[_Node, int]], _Node | None]:
        """Return the path of UCT to a node with untried actions; no node if the compile ends first."""
        visited: list[tuple[_Node, int]] = []
        node: _Node | None = self._root
        while node is not None and not node.untried:
            action = node.choose()
            visited.append((node, action))
            if action not in node.children:
                # Only clang's own choice, whose leaf is known, has no node yet.
                node.children[action], _ = self._expand(node, action, node.leaf)
            node = node.children[action]
        return visited, node

    def _try(self, visited: list[tuple[_Node, int]], node: _Node) -> None:
        action = node.untried.pop()
        visited.append((node, action))
        node.children[action], leaf = self._expand(node, action)
        for parent, taken in visited:
            parent.score(taken, leaf)

    def _expand(self, node: _Node, action: int, leaf: Leaf | None = None) -> tuple[_Node | None, Leaf]:
        """Return the node after an action, None if the compile ends there; and its leaf, by a rollout if not given."""
        with self._cache.at(node.path) as branch:
            branch.take(action)
            if branch.decision is None:
                return None, leaf or branch.leaf()
            self._cache.add(branch)
            path, candidates = branch.actions, branch.candidates()
            leaf = leaf or branch.roll_out()
            return None if leaf.failed else self._node(path, candidates, leaf), leaf

    def _node(self, path: tuple[int, ...], candidates: list[int], leaf: Leaf) -> _Node:
        node = _Node(path, leaf, candidates)
        node.untried.remove(node.default)
        self._generator.shuffle(node.untried)
        node.score(node.default, leaf)
        return node
