"""What an episode would have cost with one decision made otherwise: exact, for a compile each.

An episode is compiled once more, and clang is copied at the decisions that are asked about. In each copy that decision
is made otherwise, and all others are made as they were, by their place; where there was none at a place, because the
call came with code that was inlined, clang's own choice is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.outcome import costs
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.inline_contexts import InlineSite

MOST_COPIES = 16
"""How many copies of a compile wait at once."""


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """One decision of an episode, made otherwise.

    Attributes:
        decision: its number in the episode, from 0.
        site: its place.
        action: how it was made.
        other: how it was made instead.
        cost: what the episode costs by the environment's metric.
        other_cost: what it costs with the other action.
    """

    decision: int
    site: InlineSite
    action: int
    other: int
    cost: float
    other_cost: float

    @property
    def saved(self) -> float:
        """What the decision saved, in the unit of the metric: positive where the other action costs more."""
        return self.other_cost - self.cost


def counterfactuals(
    setup: Setup, episode: Episode, actions: Sequence[int | float], wanted: Iterable[int | tuple[str, int, int]]
) -> list[Counterfactual]:
    """Make decisions of an episode otherwise, one at a time.

    Args:
        setup: that of the environment; only the inliner asks.
        episode: the episode, wherever it is; it is left as it is.
        actions: its actions; after them clang's own choices are taken.
        wanted: the decisions, each by its number in the episode, or by component, visit and position.

    Returns:
        One for each that is wanted, in that order.

    Raises:
        CompilerError: a compile failed.
        MlgoError: the episode has no such decision, or others ask than the inliner.
    """
    if setup.task.advisors != (INLINING,):
        raise MlgoError(
            f"counterfactuals are for inlining alone, and this is {setup.task.name}: fork() the environment at a "
            "decision, and go on both ways"
        )
    names = [InlineSite(*each) if isinstance(each, tuple) else int(each) for each in wanted]
    found: dict[int | InlineSite, Counterfactual] = {}
    for start in range(0, len(names), MOST_COPIES):
        with ExitStack() as copies:
            walk = _Walk(setup, actions, frozenset(names[start : start + MOST_COPIES]), copies)
            again = Episode(
                episode.compilation,
                setup.task,
                function=episode.function,
                contexts=True,
                baseline=episode.compared or episode.baseline,
            )
            with closing(again):
                found |= walk.through(again)
    missing = [name for name in names if name not in found]
    if missing:
        raise MlgoError(f"the episode was to have decision {missing[0]!r}, and has none: its infos say which it has")
    return [found[name] for name in names]


class _Walk:
    """Goes through an episode once, and leaves copies behind at the decisions that are wanted."""

    def __init__(
        self, setup: Setup, actions: Sequence[int | float], wanted: frozenset[int | InlineSite], copies: ExitStack
    ) -> None:
        self._setup = setup
        self._task = setup.task
        self._timeout = setup.settings.timeout
        self._actions = actions
        self._wanted = wanted
        self._copies = copies
        self._answers: dict[InlineSite, int] = {}

    def through(self, episode: Episode) -> dict[int | InlineSite, Counterfactual]:
        """Compile, then the copies; return what was found by what was wanted."""
        left: list[tuple[list[int | InlineSite], int, InlineSite, int, Episode]] = []
        number = 0
        episode.wait(self._timeout)
        while (decision := episode.decision) is not None:
            site = _site(decision)
            own = int(self._task.default_action(decision))
            action = int(self._actions[number]) if number < len(self._actions) else own
            keys: list[int | InlineSite] = [key for key in (number, site) if key in self._wanted]
            if keys:
                twin = self._copies.enter_context(closing(episode.fork(self._timeout)))
                left.append((keys, number, site, action, twin))
            self._answers[site] = action
            self._answer(episode, decision, action)
            number += 1
        cost = costs(self._setup, episode)[0]
        found: dict[int | InlineSite, Counterfactual] = {}
        for keys, at, site, action, twin in left:
            other = self._otherwise(twin, 1 - action)
            result = Counterfactual(at, site, action, 1 - action, cost, other)
            found |= dict.fromkeys(keys, result)
        return found

    def _otherwise(self, twin: Episode, action: int) -> float:
        """Go on with a copy by another action, and as it was after that; return what it cost."""
        assert twin.decision is not None
        self._answer(twin, twin.decision, action)
        while (decision := twin.decision) is not None:
            own = int(self._task.default_action(decision))
            self._answer(twin, decision, self._answers.get(_site(decision), own))
        cost = costs(self._setup, twin)[0]
        twin.close()
        return cost

    def _answer(self, episode: Episode, decision: Decision, action: int) -> None:
        advice = self._task.encode(decision, action)
        assert advice is not None, "0 and 1 are legal at every inlining decision"
        episode.answer(advice)
        episode.wait(self._timeout)


def _site(decision: Decision) -> InlineSite:
    return InlineSite(decision.context, decision.visit, decision.number)
