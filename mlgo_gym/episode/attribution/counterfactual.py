"""Counterfactuals: the exact cost of an episode with one decision flipped.

The episode is compiled once more, and clang is forked at each requested decision. Each fork flips that decision and
repeats all other actions by their sites. At a site that the episode lacks, because the call is part of inlined code,
the fork takes clang's own choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlgo_gym.compiler.decision import Decision, DecisionSite
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING

if TYPE_CHECKING:
    from mlgo_gym.episode.episode import Episode
    from mlgo_gym.tasks.task import Task

MAX_FORKS = 16
"""Maximum number of forks that wait at the same time."""


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """One flipped decision of an episode.

    Attributes:
        decision_index: Index of the decision in the episode.
        site: Site of the decision.
        action: The action of the episode.
        alternative: The flipped action.
        cost: Cost of the episode, by the environment's metric.
        alternative_cost: Cost with the flipped action.
    """

    decision_index: int
    site: DecisionSite
    action: int
    alternative: int
    cost: float
    alternative_cost: float

    @property
    def saved(self) -> float:
        """Cost saved by the decision, in the unit of the metric; positive if the flipped action costs more."""
        return self.alternative_cost - self.cost


def counterfactuals(
    task: Task,
    start: Callable[[], Episode],
    cost: Callable[[Episode], float],
    timeout: float,
    actions: Sequence[int | float],
    requested: Iterable[int | DecisionSite],
) -> list[Counterfactual]:
    """Flip decisions of an episode, one at a time.

    Args:
        task: The bound task; its only advisor is the inliner's.
        start: Starts the compile of the episode again, with decision sites.
        cost: Returns the cost of a finished episode.
        timeout: Maximum wait for clang, in seconds.
        actions: The actions of the episode; clang's own choices follow them.
        requested: Decisions, each by its index in the episode or by its site.

    Returns:
        One counterfactual for each requested decision, in that order.

    Raises:
        CompilerError: A compile failed.
        MlgoError: The episode lacks a requested decision, or the task is not inlining alone.
    """
    if task.advisors != (INLINING,):
        raise MlgoError(f"expected a task that decides inlining alone, got {task.name}; fork() the environment instead")
    keys = [each if isinstance(each, DecisionSite) else int(each) for each in requested]
    found: dict[int | DecisionSite, Counterfactual] = {}
    for first in range(0, len(keys), MAX_FORKS):
        found |= _flip(task, start, cost, timeout, actions, frozenset(keys[first : first + MAX_FORKS]))
    missing = [key for key in keys if key not in found]
    if missing:
        raise MlgoError(f"expected a decision of the episode, got {missing[0]!r}; use info['site'] or decision_index")
    return [found[key] for key in keys]


def _flip(
    task: Task,
    start: Callable[[], Episode],
    cost: Callable[[Episode], float],
    timeout: float,
    actions: Sequence[int | float],
    requested: frozenset[int | DecisionSite],
) -> dict[int | DecisionSite, Counterfactual]:
    """Run through the episode once, fork it at the requested decisions, and finish it and its forks."""
    taken: dict[DecisionSite, int] = {}

    def answer(running: Episode, decision: Decision, action: int) -> None:
        advice = task.encode(decision, action)
        assert advice is not None, "0 and 1 are legal at every inlining decision"
        running.answer(advice)
        running.wait(timeout)

    found: dict[int | DecisionSite, Counterfactual] = {}
    pending: list[tuple[list[int | DecisionSite], int, DecisionSite, int, Episode]] = []
    with ExitStack() as forks, closing(start()) as episode:
        index = 0
        episode.wait(timeout)
        while (decision := episode.decision) is not None:
            action = int(actions[index] if index < len(actions) else task.default_action(decision))
            keys: list[int | DecisionSite] = [key for key in (index, decision.site) if key in requested]
            if keys:
                fork = forks.enter_context(closing(episode.fork(timeout)))
                pending.append((keys, index, decision.site, action, fork))
            taken[decision.site] = action
            answer(episode, decision, action)
            index += 1
        total = cost(episode)
        for keys, at, site, action, fork in pending:
            assert fork.decision is not None
            answer(fork, fork.decision, 1 - action)
            while (decision := fork.decision) is not None:
                answer(fork, decision, taken.get(decision.site, int(task.default_action(decision))))
            found |= dict.fromkeys(keys, Counterfactual(at, site, action, 1 - action, total, cost(fork)))
            fork.close()
    return found
