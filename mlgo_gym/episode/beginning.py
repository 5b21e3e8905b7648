"""An episode on its way to its first decision, which an event loop serves and which may start early."""

from __future__ import annotations

import copy

import numpy as np

from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.order import Turn
from mlgo_gym.episode.episode_maker import Begun, EpisodeMaker
from mlgo_gym.session.work import WorkUnderWay


class Beginning(WorkUnderWay[Begun]):
    """A beginning with a random generator and a turn of its own, so that it may start early.

    Args:
        maker: starts episodes.
        np_random: the state from which it samples; left as it is.
        turn: from where it goes on in the order of modules; left as it is.
        module: the module; None samples one.
        function: the function, for episodes that are one function's; None samples one.

    Attributes:
        np_random, turn: what the next beginning is to start from, once this one is done.
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
        """Return whether it started from this state of the random generator, and from there in the order."""
        return bool(self._before == (np_random.bit_generator.state, turn))

    def close(self) -> None:
        """Give the beginning up and end its clang, also where that waits with its first decision. Idempotent."""
        super().close()
        for begun in self._result:
            begun.episode.close()
