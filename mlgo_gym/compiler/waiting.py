"""Waiting for a compiler: signals interrupt the waits only.

Python runs handlers of signals, such as Ctrl-C's, between any two instructions of the main thread. An exception there
loses descriptors and processes that no variable holds yet, and it leaves a clean-up half done.
"""

import importlib
import os
import signal
import threading
from collections.abc import Callable
from functools import wraps
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
