"""An episode that an event loop runs: its compiler, or a function in a thread, is polled instead of awaited."""

import copy
import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from mlgo_gym.compiler.coroutine import CompilerCoroutine
from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.waiting import interruptible
from mlgo_gym.corpus.module_order import OrderCursor
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.episode_maker import ANY, EpisodeMaker, EpisodeStart
from mlgo_gym.errors import CompilerError

_running = threading.BoundedSemaphore(os.cpu_count() or 1)


class BackgroundCall:
    """A function call in a thread, which an event loop watches like a session; then it has `exited`."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.exited = False
        self._error: BaseException | None = None
        self._read, self._write = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, args=(function,), name="mlgo-gym-background")
        self._thread.start()

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            with _running:
                self._result = function()
        except BaseException as error:  # noqa: BLE001 - raised again by `poll()`
            self._error = error
        self.exited = True
        os.write(self._write, b"1")

    def descriptors(self) -> list[int]:
        """Return the descriptor to watch; `poll()` when it is readable."""
        return [] if self._read < 0 else [self._read]

    def poll(self) -> Any:
        """Return the result of the function or raise its exception, once it has `exited`; None before."""
        if not self.exited:
            return None
        self.close()
        if self._error is not None:
            raise self._error
        return self._result

    def close(self) -> None:
        """Wait for the function, which cannot be ended earlier, and close the descriptors. Idempotent."""
        if self._read >= 0:
            interruptible(self._thread.join)
            os.close(self._read)
            os.close(self._write)
            self._read = -1


class EpisodeDriver:
    """Runs an episode for an event loop, with its own random generator and cursor, so that it can start ahead of time.

    It starts at once, and its errors are raised here. Once it has reached its first decision, the next episode starts
    from the states of `np_random` and `cursor`.

    Attributes:
        awaited: The session or background call to watch; None while a decision is pending, and at the end.
        deadline: Time of the timeout of a clang that is silent, on the monotonic clock.
        episode: The episode; None before its first decision.
    """

    def __init__(
        self, maker: EpisodeMaker, np_random: np.random.Generator, cursor: OrderCursor, start: EpisodeStart = ANY
    ) -> None:
        self._before = np_random.bit_generator.state, cursor.copy()
        self.np_random, self.cursor = copy.deepcopy(np_random), cursor.copy()
        self.episode: Episode | None = None
        self._timeout = maker.setup.timeout
        self._coroutine = self._begin(maker, start)
        self._resume(self._coroutine.send, None)

    def _begin(self, maker: EpisodeMaker, start: EpisodeStart) -> CompilerCoroutine[None]:
        self.episode = yield from maker.begin(self.np_random, start, self.cursor)

    def follows(self, np_random: np.random.Generator, cursor: OrderCursor) -> bool:
        """Return whether the episode started from these states."""
        return bool(self._before == (np_random.bit_generator.state, cursor))

    def restart_deadline(self) -> None:
        """Measure the silence from now."""
        self.deadline = time.monotonic() + self._timeout

    def proceed(self) -> None:
        """Continue after the answer to the pending decision."""
        assert self.episode is not None, "no decision is pending before the first"
        self._coroutine = self.episode.proceed()
        self._resume(self._coroutine.send, None)

    def _resume(self, step: Callable[[Any], Session | Callable[[], Any]], value: Any) -> None:
        self.awaited: Session | BackgroundCall | None = None
        try:
            awaited = step(value)
        except StopIteration:
            return
        if isinstance(awaited, Session):
            self.awaited, self.deadline = awaited, time.monotonic() + self._timeout
        else:
            self.awaited, self.deadline = BackgroundCall(awaited), math.inf

    def poll(self) -> bool:
        """Continue without waiting; return whether a decision is pending, or the episode has ended."""
        while (awaited := self.awaited) is not None:
            try:
                value = awaited.poll()
            except CompilerError as error:
                self._resume(self._coroutine.throw, error)
                continue
            if value is None and not awaited.exited:
                return False
            self._resume(self._coroutine.send, value)
        return True

    def time_out(self) -> None:
        """Kill a clang that was silent for too long; extend the deadline instead if it had no CPU."""
        if isinstance(awaited := self.awaited, Session):
            if grace := awaited.grace(self._timeout):
                self.deadline = time.monotonic() + grace
            else:
                self._resume(self._coroutine.throw, awaited.timeout_error(self._timeout))

    def close(self) -> None:
        """End the episode and its compile. Idempotent."""
        if isinstance(self.awaited, BackgroundCall):
            self.awaited.close()
        self.awaited = None
        self._coroutine.close()
        if self.episode is not None:
            self.episode.close()
