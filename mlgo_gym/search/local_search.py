"""Random search and hill climbing around clang's own choices."""

from __future__ import annotations

import numpy as np

from mlgo_gym.search.branch_cache import MAX_BRANCHES, BranchCache
from mlgo_gym.search.search_space import Branch, Leaf, SearchSpace

FLIPS = 4
"""Mean number of changed decisions per compile of random search."""

DEFAULT_COMPILES = 100
"""Number of compiles without a budget."""


def random_search(space: SearchSpace, seed: int = 0) -> Leaf:
    """Return the best leaf among random variations of clang's own choices within the budget, or 100 compiles."""
    generator = np.random.default_rng(seed)
    with space.root() as root:
        best = root.fork().roll_out()
        rate = min(1.0, FLIPS / len(best.actions))
        while not space.budget.is_spent_after(DEFAULT_COMPILES):
            leaf = _vary(root.fork(), rate, generator)
            if leaf.cost < best.cost:
                best = leaf
    return best


def _vary(branch: Branch, rate: float, generator: np.random.Generator) -> Leaf:
    with branch:
        while branch.decision is not None:
            action = branch.default
            if generator.random() < rate:
                others = [candidate for candidate in branch.candidates() if candidate != action]
                action = others[int(generator.integers(len(others)))] if others else action
            branch.take(action)
        return branch.leaf()


def hill_climb(space: SearchSpace, seed: int = 0) -> Leaf:
    """Return the best leaf of hill climbing from clang's own choices within the budget, or 100 compiles.

    Each compile changes one random decision; the other actions of the current path follow where they are legal. An
    equal cost is accepted, to move along plateaus.
    """
    generator = np.random.default_rng(seed)
    with space.root() as root, BranchCache(root) as cache:
        best = current = root.fork().roll_out()
        while not space.budget.is_spent_after(DEFAULT_COMPILES):
            leaf = _change(cache, current, int(generator.integers(len(current.actions))), generator)
            if leaf.cost <= current.cost:
                current = leaf
            if leaf.cost < best.cost:
                best = leaf
    return best


def _change(cache: BranchCache, path: Leaf, index: int, generator: np.random.Generator) -> Leaf:
    with cache.at(path.actions[:index]) as branch:
        cache.keep(branch, apart=len(path.actions) // MAX_BRANCHES)
        others = branch.alternatives(path)
        if others:
            branch.take(others[int(generator.integers(len(others)))])
        return branch.roll_out(path.actions)
