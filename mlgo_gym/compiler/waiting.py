"""Waiting for a compiler: interrupts while waiting only, and one CPU while decisions follow in quick succession.

Python runs handlers of signals, such as Ctrl-C's, between any two instructions of the main thread. An exception there
loses descriptors and processes that no variable holds yet, and it leaves a clean-up half done.

A host and a clang that wait for each other never run at the same time. Still the scheduler wakes each on another CPU
than its waker, which is busy at that instant. Waking an idle CPU takes 0.05 ms on a virtual machine, twice per
decision. On one CPU both switches are cheap.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from functools import lru_cache, wraps
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# SIGINT is replaced first and restored last.
_SIGNALS = tuple(
    map(int, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2))
)

# `signal` without its conversion of numbers to enumerations, which takes ten times as long.
_signal = importlib.import_module("_signal")


class uninterrupted:  # noqa: N801 - reads as a statement, like `contextlib.suppress`
    """Defer the handlers of signals to the end of the block, and to `interruptible()` calls in it.

    It also decorates functions. Blocks may be nested. Threads other than the main one run no handlers, and nothing is
    deferred there.
    """

    def __init__(self) -> None:
        self._raising = True
        self._handlers: list[tuple[int, Callable[[int, FrameType | None], Any]]] = []
        self._pending: list[int] = []

    def __call__(self, function: F) -> F:
        """Return a function whose calls are blocks."""

        @wraps(function)
        def block(*arguments: Any, **keywords: Any) -> Any:
            with uninterrupted():
                return function(*arguments, **keywords)

        return block  # type: ignore[return-value] # it has the same signature

    def __enter__(self) -> None:
        global deferring
        if deferring is not None or threading.get_ident() != _main_thread:
            return
        try:
            for number in _SIGNALS:
                handler = _signal.getsignal(number)
                if callable(handler):
                    self._handlers.append((number, handler))
                    _signal.signal(number, self._handle)
            self._raising = False
            deferring = self
        except BaseException:
            self._restore()
            raise

    def __exit__(self, *_: object) -> None:
        global deferring
        if deferring is self:
            deferring = None
            self._restore()
            self._deliver()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._raising:
            self._pending.append(number)
            return
        # A handler that raises is followed by clean-up.
        self._raising = False
        dict(self._handlers)[number](number, frame)
        self._raising = True

    def _restore(self) -> None:
        try:
            for number, handler in reversed(self._handlers):
                _signal.signal(number, handler)
        finally:
            self._raising = True

    def _deliver(self) -> None:
        while self._pending:
            number = self._pending.pop(0)
            dict(self._handlers)[number](number, None)

    def call(self, wait: Callable[..., T], *arguments: Any) -> T:
        """Call a function; handlers may raise meanwhile."""
        try:
            self._raising = True
            self._deliver()
            return wait(*arguments)
        finally:
            self._raising = False


deferring: uninterrupted | None = None

_main_thread = threading.main_thread().ident


def interruptible(wait: Callable[..., T], *arguments: Any) -> T:
    """Call a function that waits, and return its result; handlers of signals may raise meanwhile."""
    block = deferring
    if block is None or threading.get_ident() != _main_thread:
        return wait(*arguments)
    return block.call(wait, *arguments)


def _forget() -> None:
    """Let a fork handle signals: it may never return to the block that this process was in."""
    global _main_thread
    _main_thread = threading.get_ident()
    if deferring is not None:
        deferring._raising = True


os.register_at_fork(after_in_child=_forget)


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
        self._current = _current_cpu()
        self._cpu = -1
        self._allowed: set[int] = set()
        self._quick = True
        self._pinned_waits = 0

    def wait(self, poll: select.poll, seconds: float) -> None:
        """Wait at most `seconds` until a descriptor of a poll object is ready."""
        if (current := self._current) is None or not self._quick:
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
            ready = bool(interruptible(poll.poll, milliseconds) if deferring else poll.poll(milliseconds))
            if current() != cpu:
                self._pinned_waits = PINNED_WAITS
        if not ready:
            self._quick = False
            self.release()
            interruptible(poll.poll, max(seconds - burst, 0.0) * 1000)

    @uninterrupted()
    def _share(self, cpu: int) -> None:
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
