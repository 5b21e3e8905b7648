"""Searches by forked compiles: greedy look-ahead, random changes and hill climbing.

Clang's own choices follow each tried action. Without a budget, the random searches stop after `DEFAULT_COMPILES`.
"""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np

from mlgo_gym.search.search_space import Branch, Leaf, SearchSpace

FLIPS = 4
"""Mean number of changed decisions per compile of random search."""

DEFAULT_COMPILES = 100
"""Number of compiles without a budget."""

MAX_BRANCHES = 32
"""Maximum number of compiles of hill climbing that wait at the same time."""


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
    with ExitStack() as branches:
        # Compiles that wait on the current path, so that no path starts at the first decision.
        waiting = [branches.enter_context(space.root())]
        current = waiting[0].fork().roll_out()
        while not space.budget.is_spent_after(DEFAULT_COMPILES):
            path = current.actions
            index = int(generator.integers(len(path)))
            nearest = max((at for at in waiting if len(at.actions) <= index), key=lambda at: len(at.actions))
            with nearest.fork() as branch:
                for action in path[len(nearest.actions) : index]:
                    branch.take(action)
                if index - len(nearest.actions) > len(path) // MAX_BRANCHES:
                    waiting.append(branches.enter_context(branch.fork()))
                branch.take(_draw(branch.alternatives(current), generator, path[index]))
                leaf = branch.roll_out(path)
            if leaf.cost <= current.cost:
                current = leaf
                for at in [at for at in waiting if len(at.actions) > index]:
                    waiting.remove(at)
                    at.close()
    return space.best


def _draw(actions: list[int], generator: np.random.Generator, default: int) -> int:
    return actions[int(generator.integers(len(actions)))] if actions else default
