"""An episode between an answer and what comes of it, as an event loop serves it."""

from __future__ import annotations

import time

from mlgo_gym.episode import Episode
from mlgo_gym.session import Session


class EpisodeUnderWay:
    """Goes on with an episode as far as its compiler has come; what `WorkUnderWay` is to work of any other kind.

    It stays the same for all decisions of the episode: this is done for each of them.

    Args:
        episode: the episode; it waits with a decision.
        timeout: for how long clang may give no sign of life, in seconds.

    Attributes:
        episode: the episode.
        deadline: when clang will have been silent for too long, on the monotonic clock.
    """

    def __init__(self, episode: Episode, timeout: float) -> None:
        self.episode = episode
        self.deadline = float("inf")
        self._timeout = timeout

    @property
    def session(self) -> Session:
        """The session whose descriptors tell when to `poll()`."""
        return self.episode.current

    def answer(self, advice: bytes) -> None:
        """Answer the decision with the bytes of an advice tensor."""
        self.episode.answer(advice)
        self.deadline = time.monotonic() + self._timeout

    def poll(self) -> bool:
        """Go on without waiting; return whether there is a decision, or the episode is over.

        Raises:
            CompilerError: the compile, or that of the baseline, failed.
            ToolchainError: clang asks for other features than it did when it was probed.
        """
        episode = self.episode
        while True:
            session = episode.current
            decision = session.poll()
            if decision is None and not session.exited:
                return False
            if episode.take(decision):
                return True
            self.deadline = time.monotonic() + self._timeout

    def time_out(self) -> None:
        """End the clang that was silent for too long.

        Raises:
            CompilerError: always; of kind `timeout`.
        """
        raise self.session.timed_out(self._timeout)

    def close(self) -> None:
        """End the compile if it still runs. Idempotent."""
        self.episode.close()
