"""Greedy look-ahead: at each decision try every action with clang's own choices behind it, and keep the best."""

from __future__ import annotations

from mlgo_gym.search.branch import Leaf, SearchSpace


def greedy(space: SearchSpace, seed: int = 0) -> Leaf:
    """Return the best leaf that greedy look-ahead finds within the budget.

    The best path so far tells what its own next action leads to, so each decision costs one compile per other action.
    Ties keep the earlier choice, clang's own to begin with.

    Args:
        space: the decisions.
        seed: not used; greedy search leaves nothing to chance.
    """
    del seed
    with space.root() as branch:
        best = branch.fork().roll_out()
        while branch.decision is not None:
            planned = best.actions[len(branch.actions)]
            for action in branch.candidates():
                if action == planned:
                    continue
                if space.budget.is_spent:
                    return best
                twin = branch.fork()
                try:
                    twin.take(action)
                except BaseException:
                    twin.close()
                    raise
                leaf = twin.roll_out()
                if leaf.cost < best.cost:
                    best = leaf
            branch.take(best.actions[len(branch.actions)])
    return best
