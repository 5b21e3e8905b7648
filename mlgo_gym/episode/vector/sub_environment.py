"""One environment of a vector environment: a state machine around its episodes that never blocks."""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple

from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.module_order import OrderCursor
from mlgo_gym.episode.episode_maker import EpisodeMaker
from mlgo_gym.episode.outcome import EpisodeOutcome
from mlgo_gym.episode.pending_episode import PendingEpisode
from mlgo_gym.episode.stepper import Answer, Stepper
from mlgo_gym.errors import ActionError, MlgoError


class StepResult(NamedTuple):
    """Result of a step without the observation."""

    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class SubEnvironment:
    """Runs the episodes of one environment, one after another.

    `begin()` and `act()` start something, and `poll()` continues it until `ready`. Then there is a `step_result()`, or
    an error for `take_error()`.

    Args:
        maker: Starts the episodes of all sub-environments.
        number: Number of this one, for error messages.
        prefetch: Number of episodes to start early, so that their compilers reach the first decision in the meantime.
            They equal the episodes without prefetching: they restart where the random generator has advanced.
        autoreset_mode: Reset after the end of an episode, as for `CompilerVectorEnv`.
        cursor: Position in the order of the modules. Default: the first module.

    Attributes:
        ready: Whether there is a result or an error.
        stepper: Steps through the running episode; None between episodes.
        last_stepper: Stepper of the last started episode, for `render()`.
        outcome: Outcome of the last episode until the next one begins; with SAME_STEP until it is returned.
        np_random: Random generator of modules and functions.
        np_random_seed: Its seed; -1 if it was set.
        cursor: Position in the order of the modules.
    """

    def __init__(
        self,
        maker: EpisodeMaker,
        number: int,
        prefetch: int,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        cursor: OrderCursor | None = None,
    ) -> None:
        self.number = number
        self.ready = False
        self.stepper: Stepper | None = None
        self.last_stepper: Stepper | None = None
        self.outcome: EpisodeOutcome | None = None
        self._maker = maker
        self._mode = autoreset_mode
        self._prefetch = prefetch
        self._error: MlgoError | None = None
        self.np_random, self.np_random_seed = seeding.np_random(None)
        self.cursor = OrderCursor() if cursor is None else cursor
        self._sampled = True
        self._pending: PendingEpisode | None = None
        self._prefetched: deque[PendingEpisode] = deque()

    @property
    def session(self) -> Session | None:
        """The running session; None while a decision is pending, and between episodes."""
        if self._pending is not None:
            return self._pending.session
        if self.stepper is None or self.stepper.decision is not None:
            return None
        return self.stepper.episode.current

    @property
    def deadline(self) -> float:
        """When the compiler has been silent for too long, on the monotonic clock."""
        if self._pending is not None:
            return self._pending.deadline
        return math.inf if self.stepper is None or self.stepper.decision is not None else self.stepper.deadline

    @property
    def over(self) -> bool:
        """Whether no episode is running."""
        return self.stepper is None and self._pending is None

    @property
    def decision(self) -> Decision | None:
        """The pending decision."""
        return self.stepper.episode.decision if self.stepper is not None else None

    @property
    def shown_stepper(self) -> Stepper | None:
        """Stepper of the running episode, or of one that ended before the next has started."""
        last = self.last_stepper
        return self.stepper if self.stepper is not None or last is None or last.outcome is None else last

    @property
    def has_plain_info(self) -> bool:
        """Whether the result is a decision within an episode and nothing else."""
        return self.stepper is not None and self.stepper.has_plain_info

    def seed(self, seed: int) -> None:
        """Seed the random generator, and restart the order of the modules."""
        self.np_random, self.np_random_seed = seeding.np_random(seed)
        self.cursor = self.cursor.restarted()

    def begin(self, module: Module | None = None, function: str | None = None) -> None:
        """Begin an episode of a module, or of a sampled one; a result that was not taken is dropped."""
        self._end()
        self.outcome = None
        self._begin(module, function)

    def _begin(self, module: Module | None = None, function: str | None = None) -> None:
        self.ready, self._error = False, None
        # After a named module the next one is probably named too, so prefetching would be wasted.
        self._sampled = module is None
        if module is None:
            self._drop_outdated_prefetch()
        try:
            if module is None and self._prefetched:
                self._pending = self._prefetched.popleft()
                self._pending.restart_deadline()
            else:
                self._pending = PendingEpisode(self._maker, self.np_random, self.cursor, module, function)
        except MlgoError as error:
            self._fail(error)
        else:
            self.poll()

    def encode(self, action: Any) -> Answer | None:
        """Return an action as the answer to the pending decision; None where any action begins the next episode.

        Raises:
            ActionError: No decision is pending; or, with `strict`, the action is illegal.
        """
        if self.stepper is None or self.stepper.decision is None:
            if self.outcome is not None and self._mode is AutoresetMode.NEXT_STEP:
                return None
            raise ActionError(f"environment {self.number}: expected a pending decision, got none; reset it first")
        try:
            return self.stepper.encode(action)
        except ActionError as error:
            raise ActionError(f"environment {self.number}: {error}") from None

    def act(self, answer: Answer | None) -> None:
        """Answer the pending decision, or, with None, begin the next episode."""
        if answer is None:
            self.begin()
            return
        assert self.stepper is not None
        self.ready = False
        self.stepper.answer(answer)

    def poll(self) -> bool:
        """Continue without waiting; return whether there is a result or an error."""
        if self.ready:
            return True
        try:
            if self.stepper is not None:
                if self.stepper.poll():
                    self._settle(self.stepper)
            elif self._pending is not None and self._pending.poll():
                self._start(self._pending)
        except MlgoError as error:
            self._fail(error)
        return self.ready

    def time_out(self) -> None:
        """End a compile whose deadline has passed, unless it had no CPU to run on."""
        try:
            if self._pending is not None:
                self._pending.time_out()
            elif self.stepper is not None and self.stepper.time_out():
                self._settle(self.stepper)
        except MlgoError as error:
            self._fail(error)
        self.poll()

    def _settle(self, stepper: Stepper) -> None:
        """Make the next decision the result, or the end of the episode; with SAME_STEP the next episode follows."""
        if stepper.outcome is None:
            self.ready = True
            return
        self.outcome = stepper.outcome
        self._end()
        if self._mode is AutoresetMode.SAME_STEP:
            self._begin()
        else:
            self.ready = True

    def _start(self, pending: PendingEpisode) -> None:
        self.stepper = self.last_stepper = Stepper(self._maker.setup, pending.result)
        self._follow(pending)
        self._pending = None
        if self._sampled:
            self._start_prefetch()
        self.ready = True

    def _follow(self, pending: PendingEpisode) -> None:
        """Continue from where an episode started, unless the order has changed since."""
        self.np_random = pending.np_random
        if pending.cursor.order is self.cursor.order:
            self.cursor = pending.cursor

    def _start_prefetch(self) -> None:
        self._drop_outdated_prefetch()
        previous: PendingEpisode | SubEnvironment = self._prefetched[-1] if self._prefetched else self
        while len(self._prefetched) < self._prefetch:
            try:
                self._prefetched.append(PendingEpisode(self._maker, previous.np_random, previous.cursor))
            except MlgoError:
                return  # the episode itself will raise it
            previous = self._prefetched[-1]

    def _drop_outdated_prefetch(self) -> None:
        if self._prefetched and not self._prefetched[0].follows(self.np_random, self.cursor):
            while self._prefetched:
                self._prefetched.popleft().close()

    def _end(self) -> None:
        for part in (self._pending, self.stepper):
            if part is not None:
                part.close()
        self._pending = self.stepper = None

    def _fail(self, error: MlgoError) -> None:
        """Keep an error for `take_error()`; it ends the episode, so that the next one may begin."""
        if self._pending is not None:
            self._follow(self._pending)
        self._end()
        self._error, self.outcome, self.ready = error, EpisodeOutcome(0.0, True, {}), True

    def take_error(self) -> MlgoError | None:
        """Return the error that ended the episode, once."""
        error, self._error = self._error, None
        return error

    def step_result(self) -> StepResult:
        """Return the result of a step; with SAME_STEP the end of an episode is returned once."""
        outcome = self.outcome
        if self.stepper is None:
            assert outcome is not None, "nothing is ready"
            return StepResult(outcome.reward, not outcome.truncated, outcome.truncated, outcome.info)
        info = self.stepper.info()
        if outcome is None:
            return StepResult(0.0, False, False, info)
        self.outcome = None
        info["final_obs"], info["final_info"] = self._maker.setup.task.final_observation(), outcome.info
        return StepResult(outcome.reward, not outcome.truncated, outcome.truncated, info)

    def close(self) -> None:
        """End all episodes. Idempotent."""
        self._end()
        while self._prefetched:
            self._prefetched.popleft().close()
        self.ready = False
