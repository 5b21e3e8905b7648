"""The event loop of a vector environment: serves the compilers of all sub-environments, first come first served."""

from __future__ import annotations

import contextlib
import math
import select
import time
from collections import deque
from collections.abc import Container, Iterable, Sequence

from mlgo_gym.compiler.interrupts import interruptible, uninterrupted
from mlgo_gym.compiler.session import Session
from mlgo_gym.episode.vector.sub_environment import SubEnvironment


class _Wakeups:
    """Watches one session per number.

    A session whose decision is pending may become readable: it writes to standard error, or is killed. It would wake
    every wait for the others, so its descriptor is muted until the session is watched again.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._numbers: dict[int, int] = {}
        self._sessions: dict[int, Session] = {}
        self._muted: dict[int, list[int]] = {}

    def watch(self, number: int, session: Session) -> None:
        """Watch a session instead of the number's last one, or unmute the same one."""
        if self._sessions.get(number) is session:
            if number in self._muted:
                for descriptor in self._muted.pop(number):
                    self._epoll.register(descriptor, select.EPOLLIN)
            return
        self._muted.pop(number, None)
        self._sessions[number] = session
        # Closing the last session's descriptors removed them from the epoll set; the kernel may reuse their numbers.
        for descriptor in session.descriptors():
            self._epoll.register(descriptor, select.EPOLLIN)
            self._numbers[descriptor] = number

    def wait(self, timeout: float, numbers: Container[int]) -> set[int]:
        """Wait until a session is readable, and return the numbers of the readable sessions.

        Args:
            timeout: Maximum wait in seconds.
            numbers: Numbers of the sessions to wait for; others are muted.
        """
        readable = set()
        for descriptor, _ in interruptible(self._epoll.poll, max(timeout, 0.0)):
            number = self._numbers[descriptor]
            if number in numbers:
                readable.add(number)
            else:
                # A closed descriptor may stay readable for a moment: a clang that is starting closes its copy on exec,
                # after posix_spawn() has returned.
                with contextlib.suppress(OSError):
                    self._epoll.unregister(descriptor)
                    self._muted.setdefault(number, []).append(descriptor)
        return readable

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        self._epoll.close()


class EventLoop:
    """Continues the sub-environments whose compilers can continue, and queues those that are ready.

    Args:
        sub_envs: The sub-environments, by number.
    """

    def __init__(self, sub_envs: Sequence[SubEnvironment]) -> None:
        self._sub_envs = sub_envs
        self._wakeups = _Wakeups()
        self._running: set[int] = set()
        self._ready: deque[int] = deque()
        self._next_deadline = math.inf

    def pending(self, numbers: Iterable[int]) -> list[int]:
        """Return those of some sub-environments that were started and not collected."""
        running, ready = self._running, self._ready
        return [number for number in numbers if number in running or number in ready]

    def __len__(self) -> int:
        return len(self._running) + len(self._ready)

    def expect(self, number: int) -> None:
        """Watch a sub-environment that was just started; an earlier result that was not collected is dropped."""
        if number in self._ready:
            self._ready.remove(number)
        self._running.add(number)
        self._update(number, self._sub_envs[number])

    def put_back(self, numbers: Iterable[int]) -> None:
        """Return ready sub-environments to the front of the queue."""
        self._ready.extendleft(reversed(list(numbers)))

    @uninterrupted()
    def collect(self, count: int, among: frozenset[int] | None = None) -> list[int]:
        """Serve the compilers until enough sub-environments are ready; return their numbers, the earliest first.

        Args:
            count: Number of sub-environments.
            among: Numbers to choose from; None is all.
        """
        queue = self._ready
        if among is None:
            while len(queue) < count:
                self._serve()
            return [queue.popleft() for _ in range(count)]
        while True:
            ready = [number for number in queue if number in among]
            if len(ready) >= count:
                taken = ready[:count]
                for number in taken:
                    queue.remove(number)
                return taken
            self._serve()

    def _serve(self) -> None:
        """Wait until a compiler can continue or its deadline has passed, and continue it."""
        now = time.monotonic()
        if now >= self._next_deadline:
            self._time_out(now)
            return
        for number in self._wakeups.wait(self._next_deadline - now, self._running):
            sub_env = self._sub_envs[number]
            sub_env.poll()
            self._update(number, sub_env)

    def _time_out(self, now: float) -> None:
        """Time out the sub-environments whose deadline has passed, and find the next deadline.

        Each message of a compiler extends its deadline, so the noted one is a lower bound. A message may be unread: the
        agent may have taken longer than the timeout.
        """
        for number in [number for number in self._running if self._sub_envs[number].deadline <= now]:
            sub_env = self._sub_envs[number]
            if not sub_env.poll() and sub_env.deadline <= now:
                sub_env.time_out()
            self._update(number, sub_env)
        self._next_deadline = min((self._sub_envs[number].deadline for number in self._running), default=math.inf)

    def _update(self, number: int, sub_env: SubEnvironment) -> None:
        """Queue a sub-environment that is ready; else watch its session."""
        session = sub_env.session
        if sub_env.ready or session is None:
            self._running.discard(number)
            self._ready.append(number)
            return
        self._wakeups.watch(number, session)
        self._next_deadline = min(self._next_deadline, sub_env.deadline)

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        self._wakeups.close()
