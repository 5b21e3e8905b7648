"""Serves the compilers of many sub-environments at once, and says which are ready first."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from mlgo_gym.errors import MlgoError
from mlgo_gym.vector.function_group import FunctionSlot
from mlgo_gym.vector.sub_environment import SubEnvironment
from mlgo_gym.vector.wakeups import Wakeups

AnySubEnvironment: TypeAlias = SubEnvironment | FunctionSlot


class EventLoop:
    """Knows which sub-environments are under way, and goes on with those whose compilers have something to say.

    Args:
        sub_envs: the sub-environments, by number.
    """

    def __init__(self, sub_envs: Sequence[AnySubEnvironment]) -> None:
        self._sub_envs = sub_envs
        self._shared = any(len(sub_env.companions) > 1 for sub_env in sub_envs)
        self._wakeups = Wakeups()
        self._outstanding: set[int] = set()
        self._finished: deque[int] = deque()
        self._next_look = math.inf

    def under_way(self, numbers: Iterable[int]) -> list[int]:
        """Return which of some sub-environments have been started and not collected yet, by their numbers."""
        outstanding, finished = self._outstanding, self._finished
        return [number for number in numbers if number in outstanding or number in finished]

    def __len__(self) -> int:
        return len(self._outstanding) + len(self._finished)

    def expect(self, number: int) -> None:
        """Watch a sub-environment that was just started; anything it had still to deliver is forgotten."""
        if number in self._finished:
            self._finished.remove(number)
        self._outstanding.add(number)
        self._look_at_all_of(self._sub_envs[number])

    def put_back(self, numbers: Iterable[int]) -> None:
        """Put sub-environments that are ready and were not delivered back, ahead of all others."""
        self._finished.extendleft(reversed(list(numbers)))

    def collect(self, count: int, among: frozenset[int] | None = None) -> list[int]:
        """Serve the compilers until some sub-environments are ready, and return their numbers, the earliest first.

        Args:
            count: how many.
            among: which; None is all.
        """
        finished = self._finished
        if among is None:
            while len(finished) < count:
                self._serve()
            return [finished.popleft() for _ in range(count)]
        while True:
            ready = [number for number in finished if number in among]
            if len(ready) >= count:
                taken = ready[:count]
                for number in taken:
                    finished.remove(number)
                return taken
            self._serve()

    def _serve(self) -> None:
        """Wait until a compiler says something or has been silent for too long, and go on with it."""
        if self._shared and all(self._sub_envs[number].session is None for number in self._outstanding):
            idle = sorted(set(range(len(self._sub_envs))) - self._outstanding)
            raise MlgoError(
                f"environments {sorted(self._outstanding)} wait for others with which they share a compile: answer, or "
                f"reset, those of {idle} that share one with them"
            )
        now = time.monotonic()
        if now >= self._next_look:
            self._end_the_silent(now)
            return
        for number in self._wakeups.wait(self._next_look - now, self._outstanding):
            sub_env = self._sub_envs[number]
            sub_env.poll()
            self._look_at_all_of(sub_env)

    def _end_the_silent(self, now: float) -> None:
        """Time out those whose deadline has passed, and see when the next one will.

        Each sign of life moves a deadline on, so a noted deadline is only the earliest possible one. And what was not
        heard need not have been silent: the agent may have taken longer than the timeout to think.
        """
        for number in [number for number in self._outstanding if self._sub_envs[number].deadline <= now]:
            sub_env = self._sub_envs[number]
            if not sub_env.poll() and sub_env.deadline <= now:
                sub_env.time_out()
            self._look_at_all_of(sub_env)
        self._next_look = min((self._sub_envs[number].deadline for number in self._outstanding), default=math.inf)

    def _look_at_all_of(self, sub_env: AnySubEnvironment) -> None:
        """See what has become of a sub-environment and of all that share its compile."""
        for number in sub_env.companions:
            if number in self._outstanding:
                self._look(number, self._sub_envs[number])

    def _look(self, number: int, sub_env: AnySubEnvironment) -> None:
        """See what has become of a sub-environment: ready, or waiting for a session that is to be watched."""
        if sub_env.ready:
            self._outstanding.discard(number)
            self._finished.append(number)
            return
        session = sub_env.session
        if session is not None:
            self._wakeups.watch(number, session)
        else:
            assert self._shared, "a sub-environment that is not ready waits for a session"
        deadline = sub_env.deadline
        if deadline < self._next_look:
            self._next_look = deadline

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        self._wakeups.close()
