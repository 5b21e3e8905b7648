"""Greedy look-ahead and beam search: each action is rated with clang's own choices after it."""

from __future__ import annotations

from contextlib import ExitStack

from mlgo_gym.search.search_space import Branch, Leaf, SearchSpace

BEAM_WIDTH = 4
"""Number of branches that beam search keeps at each decision."""


def greedy(space: SearchSpace, seed: int = 0) -> Leaf:
    """Return the best leaf of greedy look-ahead within the budget; the seed is not used.

    Each decision costs one compile per action that is not on the best path; a tie keeps the best path. Passes over the
    decisions repeat as long as they find a better leaf. From the second pass on, the actions of the best path follow
    the tried action where they are legal.
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
    with branch:
        while branch.decision is not None:
            for action in branch.alternatives(best):
                if space.budget.is_spent:
                    return best
                leaf = branch.try_action(action, best.actions if follow else ())
                if leaf.cost < best.cost:
                    best = leaf
            branch.take(best.actions[len(branch.actions)])
    return best


def beam(space: SearchSpace, seed: int = 0, width: int = BEAM_WIDTH) -> Leaf:
    """Return the best leaf of beam search within the budget; the seed is not used.

    Args:
        space: The decisions.
        seed: Not used.
        width: Number of branches kept at each decision (≥ 1).
    """
    del seed
    root = space.root()
    kept: list[tuple[Branch, Leaf]] = []
    try:
        best = root.fork().roll_out()
        kept = [(root, best)]
        while kept:
            options: list[tuple[Branch, int, Leaf]] = []
            for branch, plan in kept:
                options.append((branch, plan.actions[len(branch.actions)], plan))
                for action in branch.alternatives(plan):
                    if space.budget.is_spent:
                        return best
                    leaf = branch.try_action(action)
                    options.append((branch, action, leaf))
                    if leaf.cost < best.cost:
                        best = leaf
            options.sort(key=lambda option: option[2].cost)
            kept = _advance(kept, options[:width])
    finally:
        for branch, _ in kept:
            branch.close()
        root.close()
    return best


def _advance(kept: list[tuple[Branch, Leaf]], options: list[tuple[Branch, int, Leaf]]) -> list[tuple[Branch, Leaf]]:
    """Return the unfinished branches after the chosen options, and close the old ones."""
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
    for branch, _ in kept:
        branch.close()
    return advanced
