"""Clangs that wait at the first decision of a module or a function, to be copied instead of started for each episode.

What comes before the first decision is skipped, which for register allocation is most of a compile. Copied pages cost
what they save where the first decision comes early, as for inlining. A clang that waits at a function is a start for
those that come after it in its module, too.
"""

from __future__ import annotations

import os
import warnings
from collections import OrderedDict
from pathlib import Path

from mlgo_gym.episode.episode import Episode
from mlgo_gym.errors import MlgoError, MlgoWarning
from mlgo_gym.session.snapshot_support import snapshot_support

MOST = 8
"""How many clangs wait at once at the beginning of modules."""

MOST_FUNCTIONS = 32
"""How many wait at once at the beginning of functions; each holds up to ten descriptors."""

MOST_BYTES = 1 << 30
"""How much memory of their own they may have resident together."""


class WarmStarts:
    """Waiting episodes, found by what they compile and by how far they have come; the least recently used are ended.

    Args:
        most: how many wait at once.
        most_bytes: how much resident memory of their own they may have in all, in bytes.
    """

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._waiting: OrderedDict[tuple[str, int], tuple[Episode, int]] = OrderedDict()
        self._told = False

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def copy(self, key: str, place: int, timeout: float) -> Episode | None:
        """Return a copy of the episode that waits under a key, nearest to a place without being past it.

        None if there is none, or if it cannot be copied; then a warning says why.
        """
        nearest = max((at for of, at in self._waiting if of == key and at <= place), default=None)
        if nearest is None:
            return None
        episode, _ = self._waiting[key, nearest]
        self._waiting.move_to_end((key, nearest))
        twin = self._snapshot(episode, timeout)
        if twin is None:
            self._drop((key, nearest))
        return twin

    def _snapshot(self, episode: Episode, timeout: float) -> Episode | None:
        """Return a copy of an episode; None where that would be a replay, than which a fresh clang is no worse."""
        try:
            twin = episode.fork(timeout)
        except MlgoError as error:
            reason = str(error.__cause__ or error)
        else:
            if twin.fork_method == "snapshot":
                return twin
            twin.close()
            reason = twin.fork_reason
        if not self._told:
            self._told = True
            warnings.warn(
                f"a clang that waits could not be copied, so that an episode starts in a fresh one: {reason}",
                MlgoWarning,
                stacklevel=2,
            )
        return None

    def keep(self, key: str, place: int, episode: Episode, timeout: float) -> None:
        """Keep a copy of an episode that waits with its first decision; if that is not possible, a warning says why."""
        if (key, place) in self._waiting or not snapshot_support()[0]:
            return
        twin = self._snapshot(episode, timeout)
        if twin is None:
            return
        self._waiting[key, place] = (twin, _own_bytes(twin.session.pid))
        while len(self._waiting) > self._most or self._bytes() > self._most_bytes:
            self._drop(next(iter(self._waiting)))

    def _bytes(self) -> int:
        return sum(size for _, size in self._waiting.values())

    def _drop(self, key: tuple[str, int]) -> None:
        self._waiting.pop(key)[0].close()

    def close(self) -> None:
        """End all of them. Idempotent; more may be kept afterwards."""
        while self._waiting:
            self._waiting.popitem()[1][0].close()


def _own_bytes(pid: int) -> int:
    """Return how much of a process is in memory that is no file's: the program is there once for all of them.

    proc_pid_statm(5) has it.
    """
    _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
