"""One processor for a host and the clang it waits for, as long as decisions come in quick succession.

A host that waits and a clang that waits for its answer never run at the same time. The scheduler still wakes each on
another processor than the one that its waker runs on, because that one is busy at that instant; to wake an idle
processor takes 0.05 ms on a virtual machine, and a decision does it twice. On one processor both switches are cheap.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import time
from collections.abc import Callable
from functools import lru_cache

BURST_SECONDS = 0.004
"""A clang that computes for longer than this may run where it likes, beside whatever else wants its processor."""


class SharedAffinity:
    """Waits for one clang on the processor that both share, and lets both go where they like otherwise.

    The waiting thread is bound only while it waits, and clang only until an answer takes longer than `BURST_SECONDS`:
    no processor stays overloaded for longer than that. Where a thread may not be bound, waiting is plain waiting.

    Args:
        pid: clang's process id.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._core = -1
        self._everywhere: set[int] = set()
        self._quick = True

    def wait(self, poll: select.poll, seconds: float) -> None:
        """Wait until a descriptor of a poll object is ready.

        Args:
            poll: what is waited for.
            seconds: the longest wait.
        """
        current = _current_core()
        if current is None or not self._quick:
            start = time.monotonic()
            poll.poll(seconds * 1000)
            self._quick = time.monotonic() - start < BURST_SECONDS
            return
        everywhere, bound = os.sched_getaffinity(0), False
        burst = min(seconds, BURST_SECONDS)
        try:
            bound = self._share(current(), everywhere)
            ready = poll.poll(burst * 1000)
        finally:
            if bound:
                os.sched_setaffinity(0, everywhere)
        if not ready:
            self._quick = False
            self.release()
            poll.poll(max(seconds - burst, 0.0) * 1000)

    def _share(self, core: int, everywhere: set[int]) -> bool:
        """Bind clang and this thread to a processor; return whether this thread was."""
        try:
            if core != self._core:
                os.sched_setaffinity(self._pid, {core})
                self._core, self._everywhere = core, everywhere
            os.sched_setaffinity(0, {core})
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Let clang run where it likes. Idempotent."""
        if self._core >= 0:
            self._core = -1
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self._pid, self._everywhere)


@lru_cache(maxsize=1)
def _current_core() -> Callable[[], int] | None:
    """Return what tells the processor that this thread runs on; None where there is only one, or no way to tell."""
    if len(os.sched_getaffinity(0)) < 2:
        return None
    try:
        function = ctypes.CDLL(None).sched_getcpu
    except (OSError, AttributeError):
        return None
    return function if function() >= 0 else None
