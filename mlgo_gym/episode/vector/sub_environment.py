"""The episodes of one environment of a vector environment, which an event loop continues."""

from collections import deque
from typing import Any

from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.module_order import OrderCursor
from mlgo_gym.episode.episode import Answer, Episode
from mlgo_gym.episode.episode_maker import ANY, EpisodeMaker, EpisodeStart
from mlgo_gym.episode.outcome import EpisodeOutcome
from mlgo_gym.episode.vector.driver import EpisodeDriver
from mlgo_gym.errors import ActionError, MlgoError, NoEpisodeError


class SubEnvironment:
    """Runs the episodes of one environment, one after another.

    `begin()` and `act()` start something, and `poll()` continues it until `driver` awaits nothing. Then there is a
    `step_result()`, or an error for `take_error()`.

    Episodes that start early equal those without prefetching: they restart where the random generator has advanced.
    `max_steps` is that of `TimeLimit`.

    Attributes:
        driver: Runs the episode from its start to its end; None between episodes, and after an error.
        episode, last_episode: The running episode, None between episodes; and the last started one.
        outcome: Outcome of the last episode until the next one begins; with SAME_STEP until it is returned.
            An error of the next episode is kept until then.
        np_random_seed: Seed of the random generator of modules and functions; -1 if that was set.
    """

    def __init__(
        self,
        maker: EpisodeMaker,
        env_id: int,
        prefetch: int,
        autoreset_mode: AutoresetMode,
        cursor: OrderCursor,
        max_steps: int | None,
    ) -> None:
        self.env_id, self.cursor = env_id, cursor
        self.driver: EpisodeDriver | None = None
        self.episode: Episode | None = None
        self.last_episode: Episode | None = None
        self.outcome: EpisodeOutcome | None = None
        self.np_random, self.np_random_seed = seeding.np_random(None)
        self._maker, self._mode, self._prefetch, self._max_steps = maker, autoreset_mode, prefetch, max_steps
        self._error: MlgoError | None = None
        self._next_error: MlgoError | None = None
        self._sampled = True
        self._prefetched: deque[EpisodeDriver] = deque()

    @property
    def decision(self) -> Decision | None:
        """The pending decision."""
        return None if self.episode is None else self.episode.decision

    @property
    def has_plain_info(self) -> bool:
        """Whether the info has only the keys of every decision."""
        return self.outcome is None and self.episode is not None and self.episode.has_plain_info

    @property
    def shown_decision(self) -> Decision | None:
        """The decision whose observation is returned; None for zeros."""
        if self.decision is not None or self.outcome is None or self._mode is AutoresetMode.SAME_STEP:
            return self.decision
        return self.outcome.decision

    @property
    def shown_episode(self) -> Episode | None:
        """The running episode, or one that ended before the next has started."""
        last = self.last_episode
        return self.episode if self.episode is not None or last is None or last.outcome is None else last

    def seed(self, seed: int) -> None:
        """Seed the random generator, and restart the order of the modules."""
        self.np_random, self.np_random_seed = seeding.np_random(seed)
        self.cursor = self.cursor.restarted()

    def begin(self, start: EpisodeStart = ANY) -> None:
        """Begin an episode; a result that was not taken is dropped."""
        self._end()
        self.outcome = self._next_error = None
        self._begin(start)

    def _begin(self, start: EpisodeStart = ANY) -> None:
        self._error = None
        # After a named module the next one is probably named too, so prefetching would be wasted.
        self._sampled = start.module is None
        if self._sampled:
            self._drop_outdated_prefetch()
        try:
            if self._sampled and self._prefetched:
                self.driver = self._prefetched.popleft()
                self.driver.restart_deadline()
            else:
                self.driver = EpisodeDriver(self._maker, self.np_random, self.cursor, start)
        except MlgoError as error:
            self._fail(error)
        else:
            self.poll()

    def encode(self, action: Any) -> Answer | None:
        """Return an action as the answer to the pending decision; None where any action begins the next episode."""
        episode = self.episode
        if episode is None or episode.decision is None or self.outcome is not None:
            if self._next_error is not None or (self.outcome is not None and self._mode is AutoresetMode.NEXT_STEP):
                return None
            raise NoEpisodeError(f"environment {self.env_id}: expected a pending decision, got none; reset it first")
        try:
            return episode.encode(action)
        except ActionError as error:
            raise type(error)(f"environment {self.env_id}: {error}") from None

    def act(self, answer: Answer | None) -> None:
        """Answer the pending decision, or, with None, begin the next episode."""
        if self._next_error is not None:
            error, self._next_error = self._next_error, None
            self._fail(error)
        elif answer is None or self.episode is None or self.driver is None:
            self.begin()
        else:
            self.episode.answer(answer)
            self.driver.proceed()

    def poll(self) -> None:
        """Continue without waiting."""
        if (driver := self.driver) is not None:
            try:
                if driver.poll():
                    self._settle(driver)
            except MlgoError as error:
                self._fail(error)

    def time_out(self) -> None:
        """End a compile whose deadline has passed, unless it had no CPU to run on."""
        try:
            if self.driver is not None:
                self.driver.time_out()
        except MlgoError as error:
            self._fail(error)
        self.poll()

    def _settle(self, driver: EpisodeDriver) -> None:
        """Make the next decision the result, or the end of the episode."""
        if self.episode is None:
            self.episode = self.last_episode = driver.episode
            self._follow(driver)
            if self._sampled:
                self._start_prefetch()
        else:
            is_last = self._max_steps is not None and self.episode.decisions >= self._max_steps
            if (outcome := self.episode.outcome) is not None:
                self._conclude(outcome._replace(truncated=outcome.truncated or is_last))
            elif is_last:
                self._conclude(EpisodeOutcome(0.0, False, True, self.episode.info(), self.episode.decision))

    def _conclude(self, outcome: EpisodeOutcome) -> None:
        """Make the end of the episode the result; with SAME_STEP the next episode follows."""
        self.outcome = outcome
        # An episode that is cut off shows its decision until the next one begins.
        if self.decision is None or self._mode is AutoresetMode.SAME_STEP:
            self._end()
        if self._mode is AutoresetMode.SAME_STEP:
            self._begin()

    def _follow(self, pending: EpisodeDriver) -> None:
        """Continue from where an episode started, unless the order has changed since."""
        self.np_random = pending.np_random
        if pending.cursor.order is self.cursor.order:
            self.cursor = pending.cursor

    def _start_prefetch(self) -> None:
        self._drop_outdated_prefetch()
        previous: EpisodeDriver | SubEnvironment = self._prefetched[-1] if self._prefetched else self
        while len(self._prefetched) < self._prefetch:
            try:
                self._prefetched.append(EpisodeDriver(self._maker, previous.np_random, previous.cursor))
            except MlgoError:
                return  # the episode itself will raise it
            previous = self._prefetched[-1]

    def _drop_outdated_prefetch(self) -> None:
        if self._prefetched and not self._prefetched[0].follows(self.np_random, self.cursor):
            while self._prefetched:
                self._prefetched.popleft().close()

    def _end(self) -> None:
        if self.driver is not None:
            self.driver.close()
        self.driver = self.episode = None

    def _fail(self, error: MlgoError) -> None:
        """Keep an error for `take_error()`; it ends the episode, so that the next one may begin."""
        if self.driver is not None and self.episode is None:
            self._follow(self.driver)
        self._end()
        if self.outcome is not None:
            self._next_error = error  # after the outcome, which is not returned yet
        else:
            self._error, self.outcome = error, EpisodeOutcome(0.0, True, False, {})

    def take_error(self) -> MlgoError | None:
        """Return the error that ended the episode, once."""
        error, self._error = self._error, None
        return error

    def step_result(self) -> tuple[float, bool, bool, dict[str, Any]]:
        """Return reward, terminated, truncated and info; with SAME_STEP the end of an episode is returned once."""
        outcome, episode = self.outcome, self.episode
        if outcome is None:
            return 0.0, False, False, {} if episode is None else episode.info()
        info = outcome.info
        if self._mode is AutoresetMode.SAME_STEP:
            final = {"final_obs": self._maker.setup.task.show(outcome.decision), "final_info": info}
            self.outcome, info = None, ({} if episode is None else episode.info()) | final
        return outcome.reward, outcome.terminated, outcome.truncated, info

    def close(self) -> None:
        """End all episodes. Idempotent."""
        self._end()
        while self._prefetched:
            self._prefetched.popleft().close()
