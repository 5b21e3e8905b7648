"""An episode on its way to its first decision, over modules that have none or that the compiler fails on."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from mlgo_gym.corpus.module import Module
from mlgo_gym.episode import Episode
from mlgo_gym.episode_maker import EpisodeMaker, Sampler
from mlgo_gym.errors import CompilerError, CorpusError
from mlgo_gym.work import Work, WorkUnderWay


class Begun(NamedTuple):
    """An episode that waits with its first decision.

    Attributes:
        episode: the episode.
        skipped: the modules on which the compiler failed before one was found, with the reason.
    """

    episode: Episode
    skipped: dict[str, str]


def begin(maker: EpisodeMaker, chance: np.random.Generator, module: Module | None, function: str | None) -> Work[Begun]:
    """Start an episode and go on to its first decision.

    Args:
        maker: starts episodes.
        chance: samples what is not named.
        module: the module; None samples one with a decision.
        function: the function, for episodes that are one function's; None samples one.

    Raises:
        CorpusError: the module has no decision, or none of the corpus has.
        CompilerError: the compiler fails on the module, or on too many that were sampled.
    """
    if module is not None:
        episode = yield from _first_decision(maker, chance, module, function)
        if episode is None:
            raise maker.no_decision(module.name, function)
        return Begun(episode, {})
    sampler = Sampler(maker, chance)
    while True:
        module = sampler.draw()
        try:
            episode = yield from _first_decision(maker, chance, module, None)
        except (CompilerError, CorpusError) as error:
            sampler.note_failure(module.name, error)
            continue
        if episode is not None:
            return Begun(episode, sampler.skipped)


def _first_decision(
    maker: EpisodeMaker, chance: np.random.Generator, module: Module, function: str | None
) -> Work[Episode | None]:
    episode = yield from maker.prepare(module, function, chance)
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
    """A beginning that an event loop serves, with a chance of its own, so that it may start before it is needed.

    Args:
        maker: starts episodes.
        chance: the state from which it samples; left as it is.
        module: the module; None samples one.
        function: the function, for episodes that are one function's; None samples one.

    Attributes:
        chance: what the next beginning is to start from, once this one is done.
    """

    def __init__(
        self,
        maker: EpisodeMaker,
        chance: np.random.Generator,
        module: Module | None = None,
        function: str | None = None,
    ) -> None:
        self._before = chance.bit_generator.state
        self.chance = copy.deepcopy(chance)
        super().__init__(begin(maker, self.chance, module, function), maker.settings.timeout)

    def follows(self, chance: np.random.Generator) -> bool:
        """Return whether it started from this state of chance."""
        return bool(self._before == chance.bit_generator.state)

    def close(self) -> None:
        """Give the beginning up and end its clang, also where that waits with its first decision. Idempotent."""
        super().close()
        for begun in self._result:
            begun.episode.close()
