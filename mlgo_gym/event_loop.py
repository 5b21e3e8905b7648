"""Serves the compilers of many lanes at once, and says which lanes are ready first."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from mlgo_gym.lane import Lane
from mlgo_gym.wakeups import Wakeups


class EventLoop:
    """Knows which lanes are under way, and goes on with those whose compilers have something to say.

    Args:
        lanes: the lanes.
        settle: called with a lane that is ready; returns False when it set the lane going again instead.
    """

    def __init__(self, lanes: Sequence[Lane], settle: Callable[[Lane], bool]) -> None:
        self._lanes = lanes
        self._settle = settle
        self._wakeups = Wakeups()
        self._outstanding: set[int] = set()
        self._finished: deque[int] = deque()

    def __contains__(self, number: int) -> bool:
        return number in self._outstanding or number in self._finished

    def __len__(self) -> int:
        return len(self._outstanding) + len(self._finished)

    def expect(self, number: int) -> None:
        """Take a lane in that was set going; what it had to deliver before is forgotten."""
        self._outstanding.add(number)
        if number in self._finished:
            self._finished.remove(number)
        self._look(number)

    def put_back(self, numbers: Iterable[int]) -> None:
        """Take lanes in that are ready and were not delivered, before all others."""
        self._finished.extendleft(reversed(list(numbers)))

    def collect(self, count: int, among: frozenset[int] | None = None) -> list[int]:
        """Serve the compilers until some lanes are ready, and return their numbers, first come first.

        Args:
            count: how many.
            among: which; None is all.
        """
        while True:
            ready = [number for number in self._finished if among is None or number in among]
            if len(ready) >= count:
                taken = ready[:count]
                for number in taken:
                    self._finished.remove(number)
                return taken
            self._serve()

    def _serve(self) -> None:
        """Wait until compilers say something, or are silent for too long, and go on with those."""
        first = min(self._lanes[number].deadline for number in self._outstanding)
        for number in self._wakeups.wait(first - time.monotonic(), self._outstanding):
            self._lanes[number].poll()
            self._look(number)
        now = time.monotonic()
        if now >= first:
            for number in [number for number in self._outstanding if self._lanes[number].deadline <= now]:
                self._lanes[number].time_out()
                self._look(number)

    def _look(self, number: int) -> None:
        lane = self._lanes[number]
        while lane.ready:
            if self._settle(lane):
                self._outstanding.discard(number)
                self._finished.append(number)
                return
        assert lane.session is not None, "a lane that is not ready waits for a session"
        self._wakeups.watch(number, lane.session)

    def close(self) -> None:
        """Give the descriptor back. Idempotent."""
        self._wakeups.close()
