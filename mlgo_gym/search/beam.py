"""Beam search: go on with the few best branches at once, each judged by clang's own choices behind it."""

from __future__ import annotations

from contextlib import ExitStack

from mlgo_gym.search.search_space import Branch, Leaf, SearchSpace

WIDTH = 4
"""How many branches are kept."""


def beam(space: SearchSpace, seed: int = 0, width: int = WIDTH) -> Leaf:
    """Return the best leaf that beam search finds within the budget.

    Args:
        space: the decisions.
        seed: not used; beam search is deterministic.
        width: how many branches are kept at each decision.
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
                planned = plan.actions[len(branch.actions)]
                options.append((branch, planned, plan))
                for action in branch.candidates():
                    if action == planned:
                        continue
                    if space.budget.is_spent:
                        return best
                    leaf = _try(branch, action)
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


def _try(branch: Branch, action: int) -> Leaf:
    with branch.fork() as twin:
        twin.take(action)
        return twin.roll_out()


def _advance(kept: list[tuple[Branch, Leaf]], options: list[tuple[Branch, int, Leaf]]) -> list[tuple[Branch, Leaf]]:
    """Return the branches behind the chosen options that still have decisions; the old ones are closed."""
    advanced: list[tuple[Branch, Leaf]] = []
    with ExitStack() as on_error:
        for branch, action, leaf in options:
            twin = on_error.enter_context(branch.fork())
            twin.take(action)
            if twin.decision is None:
                twin.close()
            else:
                advanced.append((twin, leaf))
        on_error.pop_all()
    for branch, _ in kept:
        branch.close()
    return advanced
