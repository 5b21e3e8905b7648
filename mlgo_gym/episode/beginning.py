"""An episode on its way to its first decision, over modules that have none or that the compiler fails on."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from mlgo_gym.corpus.module import Module
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.episode_maker import EpisodeMaker, Sampler
from mlgo_gym.errors import CompilerError, CorpusError
from mlgo_gym.session.work import Work, WorkUnderWay


class Begun(NamedTuple):
    """An episode that waits with its first decision.

    Attributes:
        episode: the episode.
        skipped: the modules on which the compiler failed before one was found, with the reason.
    """

    episode: Episode
    skipped: dict[str, str]


def begin(
    maker: EpisodeMaker, np_random: np.random.Generator, module: Module | None, function: str | None
) -> Work[Begun]:
    """Start an episode and go on to its first decision.

    Args:
        maker: starts episodes.
        np_random: samples what is not named.
        module: the module; None samples one with a decision.
        function: the function, for episodes that are one function's; None samples one.

    Raises:
        CorpusError: the module has no decision, or none of the corpus has.
        CompilerError: the compiler fails on the module, or on too many that were sampled.
    """
    if module is not None:
        episode = yield from _first_decision(maker, np_random, module, function)
        if episode is None:
            raise maker.no_decision(module.name, function)
        return Begun(episode, {})
    sampler = Sampler(maker, np_random)
    while True:
        module = sampler.draw()
        try:
            episode = yield from _first_decision(maker, np_random, module, None)
        except (CompilerError, CorpusError) as error:
            sampler.note_failure(module.name, error)
            continue
        if episode is not None:
            return Begun(episode, sampler.skipped)


def _first_decision(
    maker: EpisodeMaker, np_random: np.random.Generator, module: Module, function: str | None
) -> Work[Episode | None]:
    episode = yield from maker.prepare(module, function, np_random)
    if episode is None:
        return None
    try:
        yield from episode.proceed()
        if episode.decision is not None:
            maker.keep_warm(episode)
            return episode
    except BaseException:
        episode.close()
        raise
    maker.note_empty(episode)
    episode.close()
    return None


class Beginning(WorkUnderWay[Begun]):
    """A beginning that an event loop serves, with a random generator of its own, so that it may start early.

    Args:
        maker: starts episodes.
        np_random: the state from which it samples; left as it is.
        module: the module; None samples one.
        function: the function, for episodes that are one function's; None samples one.

    Attributes:
        np_random: what the next beginning is to start from, once this one is done.
    """

    def __init__(
        self,
        maker: EpisodeMaker,
        np_random: np.random.Generator,
        module: Module | None = None,
        function: str | None = None,
    ) -> None:
        self._before = np_random.bit_generator.state
        self.np_random = copy.deepcopy(np_random)
        super().__init__(begin(maker, self.np_random, module, function), maker.settings.timeout)

    def follows(self, np_random: np.random.Generator) -> bool:
        """Return whether it started from this state of the random generator."""
        return bool(self._before == np_random.bit_generator.state)

    def close(self) -> None:
        """Give the beginning up and end its clang, also where that waits with its first decision. Idempotent."""
        super().close()
        for begun in self._result:
            begun.episode.close()
