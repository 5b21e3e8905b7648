"""Greedy look-ahead: at each decision try every action with clang's own choices behind it, and keep the best."""

from __future__ import annotations

from mlgo_gym.search.search_space import Branch, Leaf, SearchSpace


def greedy(space: SearchSpace, seed: int = 0) -> Leaf:
    """Return the best leaf that greedy look-ahead finds within the budget.

    The best path so far tells what its own next action leads to, so each decision costs one compile per other action.
    Ties keep the earlier choice, clang's own to begin with. As long as a pass over the
    decisions finds something better, another one follows. In that one the best path's actions, by the number of the
    decision, are taken after the action that is tried, where they are legal.

    Args:
        space: the decisions.
        seed: not used; greedy search is deterministic.
    """
    del seed
    with space.root() as root:
        best = root.fork().roll_out()
        found = _pass(space, root.fork(), best, follow=False)
        while found.cost < best.cost and not space.budget.is_spent:
            best = found
            found = _pass(space, root.fork(), best, follow=True)
    return found


def _pass(space: SearchSpace, branch: Branch, best: Leaf, *, follow: bool) -> Leaf:
    """Follow the best path, which changes on the way, and return its leaf."""
    with branch:
        while branch.decision is not None:
            planned = best.actions[len(branch.actions)]
            for action in branch.candidates():
                if action == planned:
                    continue
                if space.budget.is_spent:
                    return best
                leaf = _try(branch, action, best.actions if follow else ())
                if leaf.cost < best.cost:
                    best = leaf
            branch.take(best.actions[len(branch.actions)])
    return best


def _try(branch: Branch, action: int, follow: tuple[int, ...]) -> Leaf:
    with branch.fork() as twin:
        twin.take(action)
        return twin.roll_out(follow)
