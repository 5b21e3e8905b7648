"""A pending episode: its compile is running towards its first decision."""

from __future__ import annotations

import copy

import numpy as np

from mlgo_gym.compiler.coroutine import CoroutineDriver
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.module_order import OrderCursor
from mlgo_gym.episode.episode_maker import EpisodeMaker, StartedEpisode


class PendingEpisode(CoroutineDriver[StartedEpisode]):
    """An episode before its first decision, with its own random generator and cursor: it can start ahead of time.

    Args:
        maker: Starts episodes.
        np_random: Random generator for sampling; copied.
        cursor: Position in the order of modules; copied.
        module: Module; None samples one.
        function: Function with `scope="function"`; None samples one.

    Attributes:
        np_random, cursor: States from which the next pending episode starts, once this one has started.
    """

    def __init__(
        self,
        maker: EpisodeMaker,
        np_random: np.random.Generator,
        cursor: OrderCursor,
        module: Module | None = None,
        function: str | None = None,
    ) -> None:
        self._before = np_random.bit_generator.state, cursor.copy()
        self.np_random, self.cursor = copy.deepcopy(np_random), cursor.copy()
        coroutine = maker.begin(self.np_random, module, function, self.cursor)
        super().__init__(coroutine, maker.setup.timeout)

    def follows(self, np_random: np.random.Generator, cursor: OrderCursor) -> bool:
        """Return whether the episode started from these states."""
        return bool(self._before == (np_random.bit_generator.state, cursor))

    def close(self) -> None:
        """End the compile, even if it already waits at its first decision. Idempotent."""
        super().close()
        for started in self._result:
            started.episode.close()
