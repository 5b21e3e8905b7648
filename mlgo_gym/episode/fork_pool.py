"""A pool of clangs that wait at the first decision of a module or a function; further episodes start from copies.

A copy skips the compile before the first decision, most of it for register allocation. For inlining the copied pages
cost as much as they save. A clang that waits at a function also serves later functions of its module.
"""

from __future__ import annotations

import os
import warnings
from collections import OrderedDict
from pathlib import Path

from mlgo_gym.compiler.interrupts import uninterrupted
from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.episode.episode import Episode
from mlgo_gym.errors import MlgoError, MlgoWarning

MAX_MODULES = 8
"""Largest number of clangs that wait at modules."""

MAX_FUNCTIONS = 32
"""Largest number of clangs that wait at functions; each holds up to ten descriptors."""

MAX_BYTES = 1 << 30
"""Largest resident memory of all waiting clangs together, without shared pages."""


class ForkPool:
    """Waiting episodes by compile and progress. The least recently used are ended first.

    Args:
        size: Largest number of waiting episodes.
        max_bytes: Largest resident memory of all of them, without shared pages, in bytes.
    """

    def __init__(self, size: int = MAX_MODULES, max_bytes: int = MAX_BYTES) -> None:
        self._size = size
        self._max_bytes = max_bytes
        self._waiting: OrderedDict[tuple[str, int], tuple[Episode, int]] = OrderedDict()
        self._warned = False

    def __len__(self) -> int:
        """Return the number of waiting episodes."""
        return len(self._waiting)

    def copy(self, key: str, place: int) -> Episode | None:
        """Return a copy of the waiting episode of a key with the most progress that is not past `place`.

        None if there is none, or if it cannot be copied; a warning then gives the reason.
        """
        nearest = max((at for of, at in self._waiting if of == key and at <= place), default=None)
        if nearest is None:
            return None
        episode, _ = self._waiting[key, nearest]
        self._waiting.move_to_end((key, nearest))
        copied = self._snapshot(episode)
        if copied is None:
            self._waiting.pop((key, nearest))[0].close()
        return copied

    def _snapshot(self, episode: Episode) -> Episode | None:
        """Return a snapshot of an episode; None where only a replay is possible, which a fresh clang equals."""
        try:
            copied = episode.fork()
        except MlgoError as error:
            reason = str(error.__cause__ or error)
        else:
            if copied.fork_method == "snapshot":
                return copied
            copied.close()
            reason = copied.fork_reason
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"a waiting clang could not be copied, so an episode starts in a fresh one: {reason}",
                MlgoWarning,
                stacklevel=2,
            )
        return None

    def keep(self, key: str, place: int, episode: Episode) -> None:
        """Keep a snapshot of an episode that waits at its first decision; if that fails, a warning gives the reason."""
        if (key, place) in self._waiting or not snapshot_support()[0]:
            return
        copied = self._snapshot(episode)
        if copied is None:
            return
        self._waiting[key, place] = (copied, _own_bytes(copied.session.pid))
        while len(self._waiting) > self._size or sum(size for _, size in self._waiting.values()) > self._max_bytes:
            self._waiting.popitem(last=False)[1][0].close()

    @uninterrupted()
    def close(self) -> None:
        """End all waiting episodes. Idempotent; the pool stays usable."""
        while self._waiting:
            self._waiting.popitem()[1][0].close()


def _own_bytes(pid: int) -> int:
    """Return the resident memory of a process without shared pages, in bytes (proc_pid_statm(5))."""
    _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
