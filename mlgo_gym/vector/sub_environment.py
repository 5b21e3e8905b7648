"""One environment of a vector environment: a small state machine around its episodes that never waits."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode

from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.order import Turn
from mlgo_gym.episode.beginning import Beginning
from mlgo_gym.episode.episode_maker import EpisodeMaker
from mlgo_gym.episode.outcome import Ending
from mlgo_gym.episode.stepper import Answer, Stepper
from mlgo_gym.errors import ActionError, MlgoError
from mlgo_gym.session.decision import Decision
from mlgo_gym.vector.compile_under_way import CompileUnderWay


class Delivery(NamedTuple):
    """What a step returns, but for the observation."""

    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class SubEnvironment(CompileUnderWay):
    """Runs episodes of one environment, one after the other.

    `begin()` and `act()` set something going; `poll()` goes on with it until `ready`. Then there is a `delivery()`, or
    an error to be taken with `take_error()`.

    Args:
        maker: what all sub-environments have in common.
        number: its number, for messages.
        prefetch: how many episodes to start early, so that their clangs reach their first decision meanwhile. They are
            the same episodes as without; if an episode drew more random numbers than was foreseen, they are restarted.
        autoreset_mode: what happens after an episode's end, as `CompilerVectorEnv` says.
        turn: which modules are its share, if modules are taken in turn; by default all.

    Attributes:
        ready: whether there is something to deliver.
        ending: how the last episode ended; until the next begins, or, with SAME_STEP, until that is delivered.
        np_random: the random generator that samples.
        turn: how far it has come in the order of modules.
    """

    def __init__(
        self,
        maker: EpisodeMaker,
        number: int,
        prefetch: int,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        turn: Turn | None = None,
    ) -> None:
        super().__init__()
        self.number = number
        self.ready = False
        self.ending: Ending | None = None
        self._maker = maker
        self._mode = autoreset_mode
        self._prefetch = prefetch
        self._error: MlgoError | None = None
        self.np_random, _ = seeding.np_random(None)
        self.turn = Turn() if turn is None else turn
        self._sampled = True
        self._beginning: Beginning | None = None
        self._early: deque[Beginning] = deque()

    @property
    def companions(self) -> list[int]:
        """The numbers of those with which it shares its compile: its own."""
        return [self.number]

    @property
    def over(self) -> bool:
        """Whether no episode is under way."""
        return self.stepper is None and self._beginning is None

    @property
    def decision(self) -> Decision | None:
        """The decision that waits for an action."""
        return self.stepper.episode.decision if self.stepper is not None else None

    @property
    def has_only_asked(self) -> bool:
        """Whether there is nothing to tell but the next decision."""
        return self.stepper is not None and self.stepper.has_only_asked

    def seed(self, seed: int) -> None:
        """Seed the random generator anew, and begin the order of modules anew."""
        self.np_random, _ = seeding.np_random(seed)
        self.turn = self.turn.restarted()

    def begin(self, module: Module | None = None, function: str | None = None) -> None:
        """Begin an episode: of a module, or of one that is sampled. What was to be delivered is forgotten."""
        self._end()
        self.ending = None
        self._begin(module, function)

    def _begin(self, module: Module | None = None, function: str | None = None) -> None:
        self.ready, self._error = False, None
        # Whoever names a module will name the next one too, and an early start would be in vain.
        self._sampled = module is None
        if module is None:
            self._drop_early_unless_next()
        try:
            if module is None and self._early:
                self._beginning = self._early.popleft()
                self._beginning.postpone()
            else:
                self._beginning = Beginning(self._maker, self.np_random, self.turn, module, function)
        except MlgoError as error:
            self._give_up(error)
        else:
            self.poll()

    def encode(self, action: Any) -> Answer | None:
        """Return the answer to the decision that an action is, or None where any action begins the next episode.

        Raises:
            ActionError: no decision waits; or, with `strict`, the action is illegal.
        """
        if self.stepper is None or self.stepper.decision is None:
            if self.ending is not None and self._mode is AutoresetMode.NEXT_STEP:
                return None
            raise ActionError(f"environment {self.number} has no decision that waits for an action: reset it")
        try:
            return self.stepper.encode(action)
        except ActionError as error:
            raise ActionError(f"environment {self.number}: {error}") from None

    def act(self, answer: Answer | None) -> None:
        """Answer the decision, or, with None, begin the next episode."""
        if answer is None:
            self.begin()
            return
        assert self.stepper is not None
        self.ready = False
        self.stepper.answer(answer)

    def poll(self) -> bool:
        """Go on without waiting; return whether something is ready to deliver."""
        if self.ready:
            return True
        try:
            if self.stepper is not None:
                if self.stepper.poll():
                    self._settle(self.stepper)
            elif self._beginning is not None and self._beginning.poll():
                self._begun(self._beginning)
        except MlgoError as error:
            self._give_up(error)
        return self.ready

    def _settle(self, stepper: Stepper) -> None:
        """Take in what an answer has led to; with SAME_STEP a beginning follows an end at once."""
        if stepper.ending is None:
            self.ready = True
            return
        self.ending = stepper.ending
        self._end()
        if self._mode is AutoresetMode.SAME_STEP:
            self._begin()
        else:
            self.ready = True

    def _begun(self, beginning: Beginning) -> None:
        self.stepper = self.shown = Stepper(self._maker.setup, beginning.result)
        self.np_random, self.turn = beginning.np_random, beginning.turn
        self._beginning = None
        if self._sampled:
            self._start_early()
        self.ready = True

    def _start_early(self) -> None:
        self._drop_early_unless_next()
        before: Beginning | SubEnvironment = self._early[-1] if self._early else self
        while len(self._early) < self._prefetch:
            try:
                self._early.append(Beginning(self._maker, before.np_random, before.turn))
            except MlgoError:
                return  # it comes again, and is told, when the episode is asked for
            before = self._early[-1]

    def _drop_early_unless_next(self) -> None:
        if self._early and not self._early[0].follows(self.np_random, self.turn):
            while self._early:
                self._early.popleft().close()

    def _give_up(self, error: MlgoError) -> None:
        """Keep what it cannot recover from; as good as a failed episode, so that the next one may begin."""
        if self._beginning is not None:
            self.np_random, self.turn = self._beginning.np_random, self._beginning.turn
        self._end()
        self._error, self.ending, self.ready = error, Ending(0.0, True, {}), True

    def take_error(self) -> MlgoError | None:
        """Return what it could not recover from, once."""
        error, self._error = self._error, None
        return error

    def delivery(self) -> Delivery:
        """Return what a step that is ready returns, but for the observation; with SAME_STEP an end is told once."""
        ending = self.ending
        if self.stepper is None:
            assert ending is not None, "nothing is ready"
            return Delivery(ending.reward, not ending.truncated, ending.truncated, ending.info)
        info = self.stepper.info()
        if ending is None:
            return Delivery(0.0, False, False, info)
        self.ending = None
        info["final_obs"], info["final_info"] = self._maker.setup.task.final_observation(), ending.info
        return Delivery(ending.reward, not ending.truncated, ending.truncated, info)

    def close(self) -> None:
        """End everything. Idempotent."""
        self._end()
        while self._early:
            self._early.popleft().close()
        self.ready = False


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
