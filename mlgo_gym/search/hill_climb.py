"""Hill climbing: change one decision of the best path at random, and keep the change if it helps."""

from __future__ import annotations

import numpy as np

from mlgo_gym.search.random_search import UNLIMITED_COMPILES
from mlgo_gym.search.search_space import Leaf, SearchSpace
from mlgo_gym.search.snapshots import MOST_SNAPSHOTS, Snapshots


def hill_climb(space: SearchSpace, seed: int = 0) -> Leaf:
    """Return the best leaf that hill climbing from clang's own choices finds within the budget.

    After a changed decision the best path's actions are taken by number, where they are legal. Equal costs are accepted
    too, to walk along plateaus.

    Args:
        space: the decisions; where its budget has no limit, 100 compiles are made.
        seed: seeds the random generator.
    """
    generator = np.random.default_rng(seed)
    with space.root() as root, Snapshots(root) as snapshots:
        best = current = root.fork().roll_out()
        while not space.budget.is_spent_after(UNLIMITED_COMPILES):
            leaf = _change(snapshots, current, int(generator.integers(len(current.actions))), generator)
            if leaf.cost <= current.cost:
                current = leaf
            if leaf.cost < best.cost:
                best = leaf
    return best


def _change(snapshots: Snapshots, path: Leaf, number: int, generator: np.random.Generator) -> Leaf:
    with snapshots.at(path.actions[:number]) as branch:
        snapshots.keep(branch, apart=len(path.actions) // MOST_SNAPSHOTS)
        others = [candidate for candidate in branch.candidates() if candidate != path.actions[number]]
        if others:
            branch.take(others[int(generator.integers(len(others)))])
        return branch.roll_out(path.actions)
