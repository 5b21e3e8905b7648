"""The event loop that serves the compilers of a vector environment, first come first served."""

import contextlib
import math
import select
import time
from collections import deque
from collections.abc import Iterable, Sequence

from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.waiting import interruptible
from mlgo_gym.episode.vector.driver import BackgroundCall
from mlgo_gym.episode.vector.sub_environment import SubEnvironment


class EventLoop:
    """Continues the sub-environments whose compilers can continue, and queues those that are ready.

    A session whose decision is pending may become readable: it writes to standard error, or is killed. It would wake
    every wait for the others, so it is not watched until its sub-environment runs again.
    """

    def __init__(self, sub_envs: Sequence[SubEnvironment]) -> None:
        self._sub_envs = sub_envs
        self._epoll = select.epoll()
        self._env_ids: dict[int, int] = {}
        self._watched: dict[int, Session | BackgroundCall] = {}
        self._running: set[int] = set()
        self._ready: deque[int] = deque()
        self._next_deadline = math.inf

    def pending(self, env_ids: Iterable[int]) -> list[int]:
        """Return those of some sub-environments that were started and not collected."""
        running, ready = self._running, self._ready
        return [env_id for env_id in env_ids if env_id in running or env_id in ready]

    def __len__(self) -> int:
        return len(self._running) + len(self._ready)

    def expect(self, env_id: int) -> None:
        """Watch a sub-environment that was just started; an earlier result that was not collected is dropped."""
        if env_id in self._ready:
            self._ready.remove(env_id)
        self._running.add(env_id)
        self._update(env_id)

    def put_back(self, env_ids: Iterable[int]) -> None:
        """Return ready sub-environments to the front of the queue."""
        self._ready.extendleft(reversed(list(env_ids)))

    def collect(self, count: int, among: frozenset[int] | None = None) -> list[int]:
        """Serve the compilers until a number of sub-environments, `among` some or all, are ready; return these."""
        queue = self._ready
        if among is None:
            while len(queue) < count:
                self._serve()
            return [queue.popleft() for _ in range(count)]
        while len(ready := [env_id for env_id in queue if env_id in among]) < count:
            self._serve()
        for env_id in ready[:count]:
            queue.remove(env_id)
        return ready[:count]

    def _serve(self) -> None:
        """Wait until a compiler can continue or its deadline has passed, and continue it."""
        now = time.monotonic()
        if now >= self._next_deadline:
            self._time_out(now)
            return
        readable = set()
        remaining = None if self._next_deadline == math.inf else self._next_deadline - now
        for descriptor, _ in interruptible(self._epoll.poll, remaining):
            env_id = self._env_ids[descriptor]
            if env_id in self._running:
                readable.add(env_id)
            else:
                self._unwatch(env_id, descriptor)
        for env_id in readable:
            self._sub_envs[env_id].poll()
            self._update(env_id)

    def _time_out(self, now: float) -> None:
        """Time out the sub-environments whose deadline has passed, and find the next deadline.

        Each message of a compiler extends its deadline, so the noted one is a lower bound. A message may be unread: the
        agent may have taken longer than the timeout.
        """
        late = [env_id for env_id in self._running if self._deadline(env_id) <= now]
        for env_id in late:
            self._sub_envs[env_id].poll()
            if self._deadline(env_id) <= now:
                self._sub_envs[env_id].time_out()
            self._update(env_id)
        self._next_deadline = min(map(self._deadline, self._running), default=math.inf)

    def _deadline(self, env_id: int) -> float:
        driver = self._sub_envs[env_id].driver
        return math.inf if driver is None or driver.awaited is None else driver.deadline

    def _update(self, env_id: int) -> None:
        """Queue a sub-environment that is ready, or watch what it awaits instead of what it awaited before."""
        driver = self._sub_envs[env_id].driver
        if driver is None or (awaited := driver.awaited) is None:
            self._running.discard(env_id)
            self._ready.append(env_id)
            return
        if self._watched.get(env_id) is not awaited:
            self._watched[env_id] = awaited
            # Closing the last session's descriptors removed them from the epoll set; their numbers may be reused.
            for descriptor in awaited.descriptors():
                self._epoll.register(descriptor, select.EPOLLIN)
                self._env_ids[descriptor] = env_id
        if driver.deadline < self._next_deadline:
            self._next_deadline = driver.deadline

    def _unwatch(self, env_id: int, descriptor: int) -> None:
        """Watch no descriptor of a sub-environment until it runs again; a descriptor of it is readable.

        A closed descriptor may stay readable for a moment: a clang that is starting closes its copy on exec, after
        posix_spawn() has returned.
        """
        watched = self._watched.pop(env_id, None)
        for watched_descriptor in {descriptor, *(() if watched is None else watched.descriptors())}:
            with contextlib.suppress(OSError):
                self._epoll.unregister(watched_descriptor)

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        self._epoll.close()
