"""One of the environments of a vector environment: a small state machine around its episodes that never waits."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from gymnasium.utils import seeding

from mlgo_gym.corpus.module import Module
from mlgo_gym.episode.beginning import Beginning
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.episode_maker import EpisodeMaker
from mlgo_gym.errors import ActionError, CompilerError, MlgoError
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.session import Session


class Answer(NamedTuple):
    """An action at a decision.

    Attributes:
        action: the action that is taken.
        advice: its bytes for clang.
        illegal: whether it takes the place of an illegal one.
    """

    action: Any
    advice: bytes
    illegal: bool


class SubEnvironment:
    """Runs episodes of one environment, one after the other.

    `begin()` and `act()` set something going; `poll()` goes on with it until `ready`. Then either `decision` is set, or
    the episode is over and `reward`, `truncated` and `info` tell how it ended, or there is an `error`.

    Args:
        maker: what all sub-environments have in common.
        number: its number, for messages.
        prefetch: how many episodes to start early, so that their clangs reach their first decision meanwhile. They are
            those that would come without: where an episode drew more than was foreseen, they are started anew.

    Attributes:
        ready: whether there is something to deliver.
        over: whether the last episode has ended and none has begun since.
        episode: the episode, from its first decision to its end.
        skipped: the modules on which the compiler failed before the episode began, with the reason.
        illegal: whether the last action was illegal.
        last_action: the action before the current decision; None before the first.
        reward: the reward of the episode that has ended.
        truncated: whether it ended by a failure of the compiler.
        info: the info of the episode's end.
        error: what it cannot recover from; to be raised when it is asked for its result.
    """

    def __init__(self, maker: EpisodeMaker, number: int, prefetch: int) -> None:
        self.number = number
        self.ready = False
        self.over = True
        self.episode: Episode | None = None
        self.skipped: dict[str, str] = {}
        self.illegal = False
        self.last_action: Any = None
        self.reward = 0.0
        self.truncated = False
        self.info: dict[str, Any] = {}
        self.error: MlgoError | None = None
        self._maker = maker
        self._timeout = maker.settings.timeout
        self._prefetch = prefetch
        self._chance, _ = seeding.np_random(None)
        self._sampled = True
        self._beginning: Beginning | None = None
        self._early: deque[Beginning] = deque()
        self._deadline = math.inf

    @property
    def decision(self) -> Decision | None:
        """The decision that waits for an action."""
        return self.episode.decision if self.episode is not None else None

    @property
    def has_only_asked(self) -> bool:
        """Whether there is nothing to tell but the next decision: its last action was legal, nor did it just begin."""
        episode = self.episode
        return episode is not None and episode.decisions > 0 and not self.illegal

    @property
    def session(self) -> Session | None:
        """The session whose descriptors tell when to `poll()`."""
        if self._beginning is not None:
            return self._beginning.session
        return None if self.episode is None else self.episode.current

    @property
    def deadline(self) -> float:
        """When the compiler will have been silent for too long, on the monotonic clock."""
        return self._deadline if self._beginning is None else self._beginning.deadline

    def seed(self, seed: int) -> None:
        """Seed the random generator anew."""
        self._chance, _ = seeding.np_random(seed)

    def begin(self, module: Module | None = None, function: str | None = None) -> None:
        """Begin an episode: of a module, or of one that is sampled."""
        self._end()
        self.ready, self.over, self.error, self.last_action = False, False, None, None
        # Whoever names a module will name the next one too, and an early start would be in vain.
        self._sampled = module is None
        if module is None:
            self._drop_early_unless_next()
        try:
            if module is None and self._early:
                self._beginning = self._early.popleft()
                self._beginning.postpone()
            else:
                self._beginning = Beginning(self._maker, self._chance, module, function)
        except MlgoError as error:
            self._give_up(error)
        else:
            self.poll()

    def encode(self, action: Any) -> Answer:
        """Return the answer to the decision that an action is.

        Raises:
            ActionError: no decision waits; or, with `strict`, the action is illegal.
        """
        decision = self.decision
        if decision is None:
            raise ActionError(f"environment {self.number} has no decision that waits for an action: reset it")
        task = self._maker.task
        advice = task.encode(decision, action)
        if advice is not None:
            return Answer(action, advice, False)
        if self._maker.settings.strict:
            raise ActionError(f"action {action!r} is not legal at the decision of environment {self.number}")
        return Answer(task.default_action(decision), task.default_advice(decision), True)

    def act(self, answer: Answer) -> None:
        """Answer the decision."""
        assert self.episode is not None
        self.ready, self.illegal, self.last_action = False, answer.illegal, answer.action
        self.episode.answer(answer.advice)
        self._deadline = time.monotonic() + self._timeout

    def poll(self) -> bool:
        """Go on without waiting; return whether something is ready to deliver."""
        if self.ready:
            return True
        try:
            if self.episode is not None:
                self._go_on(self.episode)
            elif self._beginning is not None and self._beginning.poll():
                self._begun(self._beginning)
        except CompilerError as error:
            self._fail(error)
        except MlgoError as error:
            self._give_up(error)
        return self.ready

    def _go_on(self, episode: Episode) -> None:
        while True:
            session = episode.current
            decision = session.poll()
            if decision is None and not session.exited:
                return
            if episode.take(decision):
                break
            self._deadline = time.monotonic() + self._timeout
        if episode.decision is None:
            self.reward, self.info = self._maker.conclude(episode)
            self.truncated = False
            self._finish()
        self.ready = True

    def _begun(self, beginning: Beginning) -> None:
        self.episode, self.skipped = beginning.result
        self._chance = beginning.np_random
        self._beginning = None
        if self._sampled:
            self._start_early()
        self.ready = True

    def time_out(self) -> None:
        """End a compile that was silent for too long."""
        try:
            if self._beginning is not None:
                self._beginning.time_out()
            elif self.episode is not None:
                raise self.episode.current.timed_out(self._timeout)
        except CompilerError as error:
            self._fail(error)
        except MlgoError as error:
            self._give_up(error)
        self.poll()

    def _start_early(self) -> None:
        self._drop_early_unless_next()
        np_random = self._early[-1].np_random if self._early else self._chance
        while len(self._early) < self._prefetch:
            try:
                self._early.append(Beginning(self._maker, np_random))
            except MlgoError:
                return  # it comes again, and is told, when the episode is asked for
            np_random = self._early[-1].np_random

    def _drop_early_unless_next(self) -> None:
        if self._early and not self._early[0].follows(self._chance):
            while self._early:
                self._early.popleft().close()

    def _fail(self, error: CompilerError) -> None:
        """The compiler failed: that ends an episode, and the sub-environment where an episode could not even begin."""
        if self._beginning is not None or self.episode is None:
            self._give_up(error)
            return
        try:
            self.reward, self.info = self._maker.fail(self.episode, error)
        except CompilerError as raised:
            self._give_up(raised)
        else:
            self.truncated = True
            self._finish()

    def _give_up(self, error: MlgoError) -> None:
        self.error = error
        if self._beginning is not None:
            self._chance = self._beginning.np_random
        self._finish()

    def _finish(self) -> None:
        self._end()
        self.ready = self.over = True

    def _end(self) -> None:
        for part in (self._beginning, self.episode):
            if part is not None:
                part.close()
        self._beginning = self.episode = None

    def close(self) -> None:
        """End everything. Idempotent."""
        self._end()
        while self._early:
            self._early.popleft().close()
        self.ready, self.over = False, True


def spread_seeds(seed: int | list[int | None] | None, count: int) -> list[int | None]:
    """Return one seed for each sub-environment as Gymnasium does: `seed`, `seed + 1`, …, or the list as given.

    Raises:
        MlgoError: a list of another length.
    """
    if seed is None:
        return [None] * count
    if isinstance(seed, (int, np.integer)):
        return [int(seed) + number for number in range(count)]
    if len(seed) != count:
        raise MlgoError(f"{count} seeds were expected, one per environment; found {len(seed)}")
    return [None if each is None else int(each) for each in seed]
