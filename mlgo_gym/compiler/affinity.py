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

from mlgo_gym.compiler import interrupts
from mlgo_gym.compiler.interrupts import interruptible, uninterrupted

BURST_SECONDS = 0.004
"""A clang that computes for longer than this, in seconds, may run on any CPU."""

PINNED_WAITS = 64
"""Number of waits with a pinned thread after one from which it woke on another CPU."""


class SharedAffinity:
    """Waits for the clang with process id `pid` on the CPU of this thread.

    Clang is pinned until a decision takes longer than `BURST_SECONDS`, so a CPU is overloaded for no longer than that.
    This thread is pinned only while it waits, and only after a wait from which it woke on another CPU: a scheduler
    whose other CPUs are busy leaves it where it is. Where processes cannot be pinned, it waits without pinning.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu = -1
        self._allowed: set[int] = set()
        self._quick = True
        self._pinned_waits = 0

    def wait(self, poll: select.poll, seconds: float) -> None:
        """Wait at most `seconds` until a descriptor of a poll object is ready."""
        current = _current_cpu()
        if current is None or not self._quick:
            start = time.monotonic()
            interruptible(poll.poll, seconds * 1000)
            self._quick = time.monotonic() - start < BURST_SECONDS
            return
        cpu, burst = current(), min(seconds, BURST_SECONDS)
        if cpu != self._cpu:
            self._share(cpu)
        if self._pinned_waits:
            self._pinned_waits -= 1
            ready = _wait_pinned(poll, burst, cpu)
        else:
            milliseconds = burst * 1000  # and one call less per decision than `interruptible()` alone
            ready = bool(interruptible(poll.poll, milliseconds) if interrupts.deferring else poll.poll(milliseconds))
            if current() != cpu:
                self._pinned_waits = PINNED_WAITS
        if not ready:
            self._quick = False
            self.release()
            interruptible(poll.poll, max(seconds - burst, 0.0) * 1000)

    @uninterrupted()
    def _share(self, cpu: int) -> None:
        """Pin clang to a CPU."""
        with contextlib.suppress(OSError):
            if self._cpu < 0:
                self._allowed = os.sched_getaffinity(self._pid)
            os.sched_setaffinity(self._pid, {cpu})
            self._cpu = cpu

    def release(self) -> None:
        """Unpin clang. Idempotent."""
        if self._cpu >= 0:
            self._cpu = -1
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self._pid, self._allowed)


@uninterrupted()
def _wait_pinned(poll: select.poll, seconds: float, cpu: int) -> bool:
    """Wait with this thread on a CPU; return whether a descriptor is ready."""
    allowed, pinned = os.sched_getaffinity(0), False
    try:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {cpu})
            pinned = True
        return bool(interruptible(poll.poll, seconds * 1000))
    finally:
        if pinned:
            os.sched_setaffinity(0, allowed)


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
