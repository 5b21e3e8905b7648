"""Random search: clang's own choices with a few of them changed at random, again and again."""

from __future__ import annotations

import numpy as np

from mlgo_gym.search.search_space import Branch, Leaf, SearchSpace

FLIPS = 4
"""How many decisions change on average."""

UNLIMITED_COMPILES = 100
"""How many compiles are made where the budget has no limit."""


def random_search(space: SearchSpace, seed: int = 0) -> Leaf:
    """Return the best leaf among random variations of clang's own choices.

    Args:
        space: the decisions; where its budget has no limit, 100 compiles are made.
        seed: seeds the random generator.
    """
    generator = np.random.default_rng(seed)
    with space.root() as root:
        best = root.fork().roll_out()
        chance = min(1.0, FLIPS / len(best.actions))
        while not space.budget.is_spent_after(UNLIMITED_COMPILES):
            leaf = _vary(root.fork(), chance, generator)
            if leaf.cost < best.cost:
                best = leaf
    return best


def _vary(branch: Branch, chance: float, generator: np.random.Generator) -> Leaf:
    with branch:
        while branch.decision is not None:
            action = branch.default
            if generator.random() < chance:
                others = [candidate for candidate in branch.candidates() if candidate != action]
                action = others[int(generator.integers(len(others)))] if others else action
            branch.take(action)
        return branch.leaf()
