"""Counterfactuals: the exact cost of an episode with one inlining decision flipped.

The episode is compiled once more, and clang is forked at each requested decision. Each fork flips that decision and
repeats all other actions by their sites. At a site that the episode lacks, because the call is part of inlined code,
the fork takes clang's own choice.
"""

from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TypeGuard

from mlgo_gym.compiler.coroutine import run_blocking
from mlgo_gym.compiler.decision import DecisionSite
from mlgo_gym.episode.argument_types import whole_number
from mlgo_gym.episode.episode import Episode
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING

MAX_FORKS = 16
"""Maximum number of forks that wait at the same time."""


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """One flipped decision of an episode: its index and site, its action, and the costs with this and the other one."""

    decision_index: int
    site: DecisionSite
    action: int
    cost: float
    alternative_cost: float

    @property
    def saved(self) -> float:
        """Cost saved by the decision, in the unit of the metric; positive if the flipped action costs more."""
        return self.alternative_cost - self.cost


def _is_site(key: object) -> TypeGuard[tuple[str, int, int]]:
    return isinstance(key, tuple) and len(key) == len(DecisionSite._fields)


def counterfactuals(
    episode: Episode, requested: Iterable[int | DecisionSite | tuple[str, int, int]]
) -> list[Counterfactual]:
    """Flip decisions of an episode, one at a time; see `CompilerEnv.counterfactual()`. The episode may still run."""
    task = episode.setup.task
    if task.advisors != (INLINING,):
        raise MlgoError(f"expected a task that decides inlining alone, got {task.name}; fork() the environment instead")
    keys = [DecisionSite(*key) if _is_site(key) else whole_number("a decision's index", key, 0) for key in requested]
    results: dict[int | DecisionSite, Counterfactual] = {}
    for first in range(0, len(keys), MAX_FORKS):
        results |= _flip(episode, frozenset(keys[first : first + MAX_FORKS]))
    missing = [key for key in keys if key not in results]
    if missing:
        raise MlgoError(f"expected a decision of the episode, got {missing[0]!r}; use info['site'] or decision_index")
    return [results[key] for key in keys]


def _flip(original: Episode, requested: frozenset[int | DecisionSite]) -> dict[int | DecisionSite, Counterfactual]:
    """Repeat an episode once, fork it at the requested decisions, and finish it and its forks."""
    actions, default_action = original.actions, original.setup.task.default_action
    taken: dict[DecisionSite, int] = {}
    results: dict[int | DecisionSite, Counterfactual] = {}
    pending: list[tuple[list[int | DecisionSite], int, DecisionSite, int, Episode]] = []
    with ExitStack() as forks, closing(original.restart()) as episode:
        run_blocking(episode.proceed(), original.setup.timeout)
        while (decision := episode.decision) is not None:
            index, site = episode.decisions, decision.site
            action = int(actions[index] if index < len(actions) else default_action(decision))
            keys: list[int | DecisionSite] = [key for key in (index, site) if key in requested]
            if keys:
                pending.append((keys, index, site, action, forks.enter_context(closing(episode.fork()))))
            taken[site] = action
            episode.take(action)
        total = episode.cost()
        for keys, index, site, action, fork in pending:
            fork.take(1 - action)
            while (decision := fork.decision) is not None:
                fork.take(taken.get(decision.site, int(default_action(decision))))
            results |= dict.fromkeys(keys, Counterfactual(index, site, action, total, fork.cost()))
    return results
