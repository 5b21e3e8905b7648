"""An episode on its way to its first decision: served by an event loop, and possibly started ahead of time."""

from __future__ import annotations

import copy

import numpy as np

from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.order import Turn
from mlgo_gym.episode.episode_maker import Begun, EpisodeMaker
from mlgo_gym.session.work import WorkUnderWay


class Beginning(WorkUnderWay[Begun]):
    """The beginning of an episode, with its own random generator and turn, so that it can start ahead of time.

    Args:
        maker: starts episodes.
        np_random: the generator whose state it samples from; not advanced.
        turn: the place in the order of modules from which it goes on; not advanced.
        module: the module; None samples one.
        function: the function, for episodes that are one function's; None samples one.

    Attributes:
        np_random, turn: where the next beginning starts from, once this one is done.
    """

    def __init__(
        self,
        maker: EpisodeMaker,
        np_random: np.random.Generator,
        turn: Turn,
        module: Module | None = None,
        function: str | None = None,
    ) -> None:
        self._before = np_random.bit_generator.state, turn.copy()
        self.np_random, self.turn = copy.deepcopy(np_random), turn.copy()
        work = maker.begin(self.np_random, module, function, self.turn)
        super().__init__(work, maker.setup.settings.timeout)

    def follows(self, np_random: np.random.Generator, turn: Turn) -> bool:
        """Return whether it started from this state of the random generator and this place in the order."""
        return bool(self._before == (np_random.bit_generator.state, turn))

    def close(self) -> None:
        """Give up the beginning and end its clang, even if that already waits with its first decision. Idempotent."""
        super().close()
        for begun in self._result:
            begun.episode.close()
