"""One of the environments of a vector environment: a small state machine around its episodes that never waits."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from gymnasium.utils import seeding

from mlgo_gym.corpus.module import Module
from mlgo_gym.episode import Episode
from mlgo_gym.episode_maker import EpisodeMaker, Sampler
from mlgo_gym.errors import ActionError, CompilerError, CorpusError, MlgoError
from mlgo_gym.session import Decision, Session


class Lane:
    """Runs episodes of one environment, one after the other.

    `begin()` and `act()` set something going; `poll()` goes on with it until `ready`. Then either `decision` is set, or
    the episode is over and `reward`, `truncated` and `info` tell how it ended.

    Args:
        maker: what all lanes have in common.
        number: the lane's number, for messages.
        prefetch: how many episodes to start early, so that their clangs reach their first decision meanwhile.

    Attributes:
        ready: whether there is something to deliver.
        over: whether the last episode has ended and none has begun since.
        reward: the reward of the episode that has ended.
        truncated: whether it ended by a failure of the compiler.
        info: the info of the episode's end.
        error: what the lane cannot recover from; raised when it is asked for its result.
        deadline: when the compiler will have been silent for too long, on the monotonic clock.
    """

    def __init__(self, maker: EpisodeMaker, number: int, prefetch: int) -> None:
        self.number = number
        self.ready = False
        self.over = True
        self.reward = 0.0
        self.truncated = False
        self.info: dict[str, Any] = {}
        self.error: MlgoError | None = None
        self.deadline = 0.0
        self.episode: Episode | None = None
        self.illegal = False
        self._maker = maker
        self._prefetch = prefetch
        self._early: list[tuple[Sampler, Module, Episode]] = []
        self._generator, _ = seeding.np_random(None)
        self._sampler: Sampler | None = None
        self._module: Module | None = None
        self._beginning = False

    @property
    def decision(self) -> Decision | None:
        """The decision that waits for an action."""
        return self.episode.decision if self.episode is not None else None

    @property
    def session(self) -> Session | None:
        """The session whose descriptors tell when to `poll()`."""
        return self.episode.current if self.episode is not None else None

    def seed(self, seed: int | None) -> None:
        """Start the lane's chance anew; episodes that were begun early under the old one are dropped."""
        self._drop_early()
        self._generator, _ = seeding.np_random(seed)

    def begin(self, module: Module | None = None, function: str | None = None) -> None:
        """Begin an episode: of a module, or of one that is sampled."""
        self._end()
        self.ready, self.over, self.error = False, False, None
        self._beginning = True
        self._sampler = None
        try:
            if module is not None:
                self._module = module
                self.episode = self._maker.start(module, function, self._generator)
                if self.episode is None:
                    raise self._no_decision(module)
            elif self._early:
                self._sampler, self._module, self.episode = self._early.pop(0)
            else:
                self._sampler = Sampler(self._maker, self._generator)
                self._module, self.episode = self._sample(self._sampler)
        except MlgoError as error:
            self._give_up(error)
        self._touch()

    def _sample(self, sampler: Sampler) -> tuple[Module, Episode]:
        while True:
            module = sampler.draw()
            try:
                episode = self._maker.start(module, None, self._generator)
            except CompilerError as error:
                sampler.note_failure(module.name, error)
                continue
            if episode is not None:
                return module, episode

    def _no_decision(self, module: Module) -> CorpusError:
        return CorpusError(
            f"module {module.name!r} of corpus {self._maker.corpus.name!r} has no {self._maker.task.name} decision to "
            "learn from: choose another, or let the environment sample one"
        )

    def act(self, action: Any) -> None:
        """Answer the decision.

        Raises:
            ActionError: no decision waits; or, with `strict`, the action is illegal.
        """
        episode = self.episode
        if episode is None or episode.decision is None:
            raise ActionError(f"environment {self.number} has no decision that waits for an action: reset it")
        task, decision = self._maker.task, episode.decision
        advice = task.encode(decision, action)
        self.illegal = advice is None
        if advice is None:
            if self._maker.settings.strict:
                raise ActionError(f"action {action!r} is not legal at the decision of environment {self.number}")
            advice = task.default_advice(decision)
        self.ready = False
        self._touch()
        try:
            episode.answer(advice)
        except BrokenPipeError:
            pass  # clang is gone: polling will say how
        except CompilerError as error:
            self._failed(error)

    def _touch(self) -> None:
        self.deadline = time.monotonic() + self._maker.settings.timeout

    def poll(self) -> bool:
        """Go on without waiting; return whether something is ready to deliver."""
        episode = self.episode
        if self.ready or episode is None:
            return self.ready
        try:
            if not episode.poll():
                return False
        except CompilerError as error:
            self._failed(error)
            return self.ready
        except MlgoError as error:
            self._give_up(error)
            return True
        if episode.decision is not None:
            self.ready = True
            if self._beginning:
                self._begun()
        elif self._beginning:
            self._empty(episode)
        else:
            self.reward, self.info = self._maker.conclude(episode)
            self.truncated = False
            self._finish()
        return self.ready

    def time_out(self) -> None:
        """End a compile that was silent for too long."""
        assert self.episode is not None
        self._failed(self.episode.time_out(self._maker.settings.timeout))

    def _begun(self) -> None:
        self._beginning = False
        if len(self._early) < self._prefetch and self._sampler is not None:
            sampler = Sampler(self._maker, self._generator)
            try:
                self._early.append((sampler, *self._sample(sampler)))
            except MlgoError:
                self._prefetch = 0  # the error will come again, and be told, when the episode is asked for

    def _empty(self, episode: Episode) -> None:
        """The module turned out to have no decision: draw another, unless it was asked for."""
        self._maker.note_empty(episode)
        assert self._module is not None
        if self._sampler is None:
            self._give_up(self._no_decision(self._module))
        else:
            self._draw_again()

    def _draw_again(self) -> None:
        assert self._sampler is not None
        self._end()
        try:
            self._module, self.episode = self._sample(self._sampler)
        except MlgoError as error:
            self._give_up(error)
        self._touch()

    def _failed(self, error: CompilerError) -> None:
        episode = self.episode
        assert episode is not None
        if not self._beginning:
            try:
                self.reward, self.info = self._maker.fail(episode, error)
            except CompilerError as raised:
                self._give_up(raised)
            else:
                self.truncated = True
                self._finish()
        elif self._sampler is None:
            self._give_up(error)
        else:
            assert self._module is not None
            try:
                self._sampler.note_failure(self._module.name, error)
            except MlgoError as raised:
                self._give_up(raised)
            else:
                self._draw_again()

    def _finish(self) -> None:
        self._end()
        self.ready = self.over = True

    def _give_up(self, error: MlgoError) -> None:
        self._end()
        self.error = error
        self._beginning = False
        self.ready = self.over = True

    def first_info(self, info: dict[str, Any]) -> dict[str, Any]:
        """Return the info of an episode's first decision, with the modules that were passed over."""
        if self._sampler is not None and self._sampler.skipped:
            info["skipped"] = self._sampler.skipped
        return info

    def _end(self) -> None:
        if self.episode is not None:
            self.episode.close()
            self.episode = None

    def _drop_early(self) -> None:
        for _, _, episode in self._early:
            episode.close()
        self._early.clear()

    def close(self) -> None:
        """End everything. Idempotent."""
        self._end()
        self._drop_early()
        self.ready, self.over = False, True


def spread_seeds(seed: int | list[int | None] | None, lanes: int) -> list[int | None]:
    """Return one seed per lane as Gymnasium does: `seed`, `seed + 1`, …, or the list as given.

    Raises:
        MlgoError: a list of another length.
    """
    if seed is None:
        return [None] * lanes
    if isinstance(seed, (int, np.integer)):
        return [int(seed) + lane for lane in range(lanes)]
    if len(seed) != lanes:
        raise MlgoError(f"{lanes} seeds were expected, one per environment; found {len(seed)}")
    return list(seed)
