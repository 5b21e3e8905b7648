"""A warning about step limits, which end episodes before they have a reward."""

from __future__ import annotations

import warnings

_EPISODES = 3
"""Number of abandoned episodes of one length that show a limit. A caller that resets at will has various lengths."""


class AbandonedEpisodes:
    """Counts episodes that a caller or a wrapper ended before the compiler did.

    An environment does not know its wrappers. A limit of steps, such as Gymnasium's `TimeLimit`, shows in successive
    abandoned episodes with equal numbers of decisions.
    """

    def __init__(self) -> None:
        self._decisions = 0
        self._episodes = 0

    def add(self, decisions: int) -> None:
        """Note an episode that was reset while a decision was pending, and warn at the third of equal length.

        Checks of environments take single steps: episodes of at most one decision do not count.
        """
        if decisions < 2:
            return
        self._episodes = self._episodes + 1 if decisions == self._decisions else 1
        self._decisions = decisions
        if self._episodes == _EPISODES:
            warnings.warn(
                f"{_EPISODES} episodes were ended after {decisions} decisions, without a reward, before there is an "
                f"object file; use max_decisions={decisions} instead of max_episode_steps, after which clang decides "
                "and the reward is real",
                stacklevel=3,
            )
