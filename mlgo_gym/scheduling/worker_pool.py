"""Workers that share a queue: assignment of items, workers that exit, and late items; independent of their kind."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Generator, Iterable, Sequence
from statistics import median
from typing import Generic

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling.work import Item, Queue, Result, WorkerFailure, Workers

_STOP_SECONDS = 5.0

SLOW_FACTOR = 3.0
"""An item is late if it takes this multiple of the median time."""

SLOW_SECONDS = 5.0
"""Default minimum time of a late item, in seconds."""

_LATE_CHECK_SECONDS = 0.5
"""Interval between checks for late items while a worker is idle."""

_MAX_FAILED_STARTS = 3
"""Maximum number of consecutive workers that exit before their first item, where items are retried."""


class WorkerExitedError(Exception):
    """A worker has exited: how, in words, and its exit status."""

    def __init__(self, how: str, status: int) -> None:
        super().__init__(how)
        self.how = how
        self.status = status


class PoolWorker(ABC, Generic[Item, Result]):
    """One worker, and the items that it works on.

    Attributes:
        capacity: Number of items that it works on at the same time (≥ 1).
        ready: Whether the worker has started.
        items: Assigned items, with the time of assignment on the monotonic clock.
        superseded: Assigned items that another worker has finished.
        pace: Seconds per item as the worker reports them; 0 if it does not.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.ready = False
        self.items: dict[Item, float] = {}
        self.superseded: set[Item] = set()
        self.pace = 0.0

    @abstractmethod
    def send(self, items: Sequence[Item]) -> None:
        """Send items; none lets the worker continue. It replies with a message."""

    @abstractmethod
    def receive(self) -> Sequence[tuple[Item, Result]]:
        """Return the results of the message that `WorkerPool.wait()` announced; none from a worker that has started.

        Raises:
            WorkerExitedError: The worker has exited.
            MlgoError: No worker can do this work.
        """

    @abstractmethod
    def stop(self, timeout: float) -> None:
        """Stop the worker; kill it if it has not exited after `timeout` seconds."""

    def assign(self, items: Sequence[Item]) -> None:
        """Send items and note when; none lets the worker continue."""
        now = time.monotonic()
        self.items.update((item, now) for item in items)
        self.send(items)


class WorkerPool(Workers[Item, Result]):
    """Workers that share a queue; each starts when there is an item for it.

    A worker that exits while it works on one item is replaced. The item is retried, then yielded as `WorkerFailure`.
    If it worked on several items, each is retried alone, which shows the one that made it exit.

    Args:
        jobs: Maximum number of workers (≥ 1).
        capacity: Number of items that a worker works on at the same time (≥ 1).
        retries: Number of times that an item is retried after its worker exited.
        copies: Whether an idle worker runs a copy of a late item once the queue is empty. The first result counts, and
            the other worker is stopped.
        slow_seconds: Minimum time of a late item, in seconds.
        message_seconds: Time that one message costs this process. With many workers each is assigned more items than
            its capacity, and returns several results in one message.
    """

    def __init__(
        self,
        jobs: int,
        capacity: int,
        *,
        retries: int = 0,
        copies: bool = False,
        slow_seconds: float = SLOW_SECONDS,
        message_seconds: float = 0.0,
    ) -> None:
        self._jobs = jobs
        self._capacity = capacity
        self._retries = retries
        self._copies = copies
        self._slow_seconds = slow_seconds
        self._workers: list[PoolWorker[Item, Result]] = []
        self._exits: Counter[Item] = Counter()
        self._copied: set[Item] = set()
        self._run_alone: set[Item] = set()
        self._message_seconds = message_seconds
        self._paces: deque[float] = deque(maxlen=1000)
        self._failed_starts = 0
        self._seconds: deque[float] = deque(maxlen=1000)

    @property
    def interval(self) -> float:
        """Maximum time between two messages of a worker that has results, in seconds."""
        return self._message_seconds * len(self._workers)

    @abstractmethod
    def start_worker(self, capacity: int) -> PoolWorker[Item, Result]:
        """Return a new worker, which sends an empty message once it has started; raise `MlgoError` if it cannot."""

    @abstractmethod
    def wait(
        self, workers: Sequence[PoolWorker[Item, Result]], seconds: float | None
    ) -> Iterable[PoolWorker[Item, Result]]:
        """Wait until one of the workers has sent a message or exited, and return these; none after `seconds`."""

    def run(self, queue: Queue[Item]) -> Generator[tuple[Item, Result | WorkerFailure], None, None]:
        """Yield each item with its result, as `Workers.run()`; raise `MlgoError` if a worker cannot start."""
        try:
            yield from self._run(queue)
        except BaseException:
            self._stop_all(0.0)
            raise

    def _run(self, queue: Queue[Item]) -> Generator[tuple[Item, Result | WorkerFailure], None, None]:
        workers = self._workers
        for _ in range(min(self._jobs - len(workers), len(queue) - len(workers))):
            workers.append(self.start_worker(self._capacity))
        for worker in workers:
            if worker.ready:
                self._assign(worker, queue)
        while busy := self._busy(queue):
            idle = self._copies and not len(queue) and any(worker.ready and not worker.items for worker in workers)
            for worker in self.wait(busy, _LATE_CHECK_SECONDS if idle else None):
                yield from self._receive(worker, queue)
            if self._copies:
                self._copy_late_items(queue)

    def _busy(self, queue: Queue[Item]) -> list[PoolWorker[Item, Result]]:
        """Return the workers to wait for. With copies, a new worker without an item is not waited for."""
        working = [worker for worker in self._workers if worker.items]
        if self._copies and not working and not len(queue):
            return []
        return [worker for worker in self._workers if worker.items or not worker.ready]

    def _receive(
        self, worker: PoolWorker[Item, Result], queue: Queue[Item]
    ) -> Generator[tuple[Item, Result | WorkerFailure]]:
        if worker not in self._workers:
            return  # it was stopped after it had sent a message
        try:
            results = worker.receive()
        except WorkerExitedError as error:
            yield from self._replace(worker, error, queue)
            return
        worker.ready = True
        self._failed_starts = 0
        if worker.pace:
            self._paces.append(worker.pace)
        now = time.monotonic()
        for item, result in results:
            worker.superseded.discard(item)
            started = worker.items.pop(item, None)
            if started is None:
                continue
            self._seconds.append(now - started)
            self._exits.pop(item, None)
            self._run_alone.discard(item)
            if item in self._copied:
                self._copied.discard(item)
                self._stop_copies_of(item)
            yield item, result
        self._assign(worker, queue)

    def _replace(
        self, worker: PoolWorker[Item, Result], error: WorkerExitedError, queue: Queue[Item]
    ) -> Generator[tuple[Item, Result | WorkerFailure]]:
        self._workers.remove(worker)
        worker.stop(0.0)
        # An item with a running copy is not lost, and may be copied again.
        lost = [item for item in worker.items if not self._holders(item)]
        self._copied.difference_update(worker.items)
        if not worker.ready or not worker.items:
            self._failed_starts += 1
            if not self._retries or self._failed_starts > _MAX_FAILED_STARTS:
                raise MlgoError(
                    f"expected a worker that starts, got {error.how} before its first item; read its standard error, "
                    "try jobs=1, and in a script start it below `if __name__ == '__main__':`"
                )
        if len(worker.items) > 1:
            queue.put_back(lost)
            self._run_alone.update(lost)
        else:
            for item in lost:
                self._exits[item] += 1
                if self._exits[item] > self._retries:
                    yield item, WorkerFailure(error.how, error.status)
                else:
                    queue.put_back([item])
                    self._run_alone.add(item)
        if len(queue):
            self._workers.append(self.start_worker(self._capacity))
            for other in self._workers:
                if other.ready and not other.items:
                    self._assign(other, queue)

    def _assign(self, worker: PoolWorker[Item, Result], queue: Queue[Item]) -> None:
        """Assign as many items as the worker has capacity for, at most its share of the queue."""
        free = worker.capacity - len(worker.items) - len(worker.superseded)
        count = min(free, -(-len(queue) // len(self._workers)))
        if self._paces:
            # The last items are spread over all workers.
            largest = len(queue) // (2 * len(self._workers))
            count = max(count, min(free + int(self.interval / median(self._paces)), largest))
        taken: list[Item] = []
        while len(taken) < count and (item := queue.take()) is not None:
            if item in self._run_alone:
                if taken or worker.items:
                    queue.put_back([item])
                else:
                    taken.append(item)
                break
            taken.append(item)
        # A worker with items waits for a message, also for an empty one.
        if taken or worker.items:
            worker.assign(taken)

    def _holders(self, item: Item) -> list[PoolWorker[Item, Result]]:
        return [worker for worker in self._workers if item in worker.items]

    def _copy_late_items(self, queue: Queue[Item]) -> None:
        idle = [worker for worker in self._workers if worker.ready and not worker.items]
        if len(queue) or not idle or not self._seconds:
            return
        now = time.monotonic()
        late = max(SLOW_FACTOR * median(self._seconds), self._slow_seconds)
        for worker in list(self._workers):
            for item, started in list(worker.items.items()):
                if idle and now - started > late and item not in self._copied:
                    self._copied.add(item)
                    idle.pop().assign([item])

    def _stop_copies_of(self, item: Item) -> None:
        """Stop the other workers of a finished item that have no other item."""
        for worker in self._holders(item):
            del worker.items[item]
            worker.superseded.add(item)
            if not worker.items:
                self._workers.remove(worker)
                worker.stop(0.0)

    def close(self) -> None:
        """Stop all workers. Idempotent."""
        self._stop_all(_STOP_SECONDS)

    def _stop_all(self, timeout: float) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.stop(timeout if worker.ready and not worker.items else 0.0)
