"""One CPU for a host and its clang while decisions follow in quick succession.

A host and a clang that wait for each other never run at the same time. Still the scheduler wakes each on another CPU
than its waker, which is busy at that instant. Waking an idle CPU takes 0.05 ms on a virtual machine, twice per
decision. On one CPU both switches are cheap.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import time
from collections.abc import Callable
from functools import lru_cache

from mlgo_gym.compiler.interrupts import interruptible, uninterrupted

BURST_SECONDS = 0.004
"""A clang that computes for longer than this, in seconds, may run on any CPU."""


class SharedAffinity:
    """Waits for the clang with process id `pid` on a CPU that both share.

    This thread is pinned only while it waits, and clang only until a decision takes longer than `BURST_SECONDS`. A CPU
    is overloaded for no longer than that. Where threads cannot be pinned, it waits without pinning.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu = -1
        self._allowed: set[int] = set()
        self._quick = True

    def wait(self, poll: select.poll, seconds: float) -> None:
        """Wait at most `seconds` until a descriptor of a poll object is ready."""
        current = _current_cpu()
        if current is None or not self._quick:
            start = time.monotonic()
            interruptible(poll.poll, seconds * 1000)
            self._quick = time.monotonic() - start < BURST_SECONDS
            return
        burst = min(seconds, BURST_SECONDS)
        if not self._wait_pinned(poll, burst, current()):
            self._quick = False
            self.release()
            interruptible(poll.poll, max(seconds - burst, 0.0) * 1000)

    @uninterrupted()
    def _wait_pinned(self, poll: select.poll, seconds: float, cpu: int) -> bool:
        """Wait on a CPU; return whether a descriptor is ready."""
        allowed, pinned = os.sched_getaffinity(0), False
        try:
            pinned = self._share(cpu, allowed)
            return bool(interruptible(poll.poll, seconds * 1000))
        finally:
            if pinned:
                os.sched_setaffinity(0, allowed)

    def _share(self, cpu: int, allowed: set[int]) -> bool:
        """Pin clang and this thread to a CPU; return whether this thread was pinned."""
        try:
            if cpu != self._cpu:
                os.sched_setaffinity(self._pid, {cpu})
                self._cpu, self._allowed = cpu, allowed
            os.sched_setaffinity(0, {cpu})
        except OSError:
            return False
        return True

    def release(self) -> None:
        """Unpin clang. Idempotent."""
        if self._cpu >= 0:
            self._cpu = -1
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self._pid, self._allowed)


@lru_cache(maxsize=1)
def _current_cpu() -> Callable[[], int] | None:
    """Return the function that returns this thread's CPU; None with a single CPU or without such a function."""
    if len(os.sched_getaffinity(0)) < 2:
        return None
    try:
        function = ctypes.CDLL(None).sched_getcpu
    except (OSError, AttributeError):
        return None
    return function if function() >= 0 else None
