"""Workers that share a queue: assignment of items, and workers that exit; independent of their kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Generator, Iterable, Sequence
from statistics import median
from typing import Generic

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling.work import Item, Queue, Result, WorkerFailure, Workers

_STOP_SECONDS = 5.0

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
        ready: Whether the worker has started.
        items: Assigned items.
    """

    def __init__(self) -> None:
        self.ready = False
        self.items: list[Item] = []

    @abstractmethod
    def send(self, items: Sequence[Item]) -> None:
        """Send items; none lets the worker continue. It replies with a message."""

    @abstractmethod
    def receive(self) -> tuple[Sequence[tuple[Item, Result]], float]:
        """Return the results and the seconds of work of the message that `WorkerPool.wait()` announced.

        The first message of a worker says that it has started, and has no results.

        Raises:
            WorkerExitedError: The worker has exited.
            MlgoError: No worker can do this work.
        """

    @abstractmethod
    def stop(self, timeout: float) -> None:
        """Stop the worker; kill it if it has not exited after `timeout` seconds."""


class WorkerPool(Workers[Item, Result]):
    """Workers that share a queue; each starts when there is an item for it.

    A worker that exits while it works on one item is replaced. The item is retried, then yielded as `WorkerFailure`.
    If it worked on several items, each is retried alone, which shows the one that made it exit.

    Args:
        jobs: Maximum number of workers (≥ 1).
        capacity: Number of items that a worker works on at the same time (≥ 1).
        retries: Number of times that an item is retried after its worker exited.
        message_seconds: Time that one message costs this process. With many workers each is assigned more items than
            its capacity, and returns several results in one message.
    """

    def __init__(self, jobs: int, capacity: int, *, retries: int = 0, message_seconds: float = 0.0) -> None:
        self._jobs = jobs
        self._capacity = capacity
        self._retries = retries
        self._message_seconds = message_seconds
        self._workers: list[PoolWorker[Item, Result]] = []
        self._exits: Counter[Item] = Counter()
        self._run_alone: set[Item] = set()
        self._failed_starts = 0
        self._paces: deque[float] = deque(maxlen=1000)

    @property
    def interval(self) -> float:
        """Maximum time between two messages of a worker that has results, in seconds."""
        return self._message_seconds * len(self._workers)

    @abstractmethod
    def start_worker(self) -> PoolWorker[Item, Result]:
        """Return a new worker; raise `MlgoError` if it cannot start."""

    @abstractmethod
    def wait(self, workers: Sequence[PoolWorker[Item, Result]]) -> Iterable[PoolWorker[Item, Result]]:
        """Wait until some of the workers have sent a message or exited, and return these."""

    def run(self, queue: Queue[Item]) -> Generator[tuple[Item, Result | WorkerFailure], None, None]:
        """Yield each item with its result, as `Workers.run()`; raise `MlgoError` if a worker cannot start."""
        workers = self._workers
        try:
            for _ in range(min(self._jobs - len(workers), len(queue) - len(workers))):
                workers.append(self.start_worker())
            self._assign_to_idle(queue)
            while busy := [worker for worker in workers if worker.items or not worker.ready]:
                for worker in self.wait(busy):
                    yield from self._receive(worker, queue)
        except BaseException:
            self._stop_all(0.0)
            raise

    def _receive(
        self, worker: PoolWorker[Item, Result], queue: Queue[Item]
    ) -> Generator[tuple[Item, Result | WorkerFailure]]:
        try:
            results, seconds = worker.receive()
        except WorkerExitedError as error:
            yield from self._replace(worker, error, queue)
            return
        worker.ready = True
        self._failed_starts = 0
        if results:
            self._paces.append(seconds / len(results))
        for item, result in results:
            worker.items.remove(item)
            self._exits.pop(item, None)
            self._run_alone.discard(item)
            yield item, result
        self._assign(worker, queue)

    def _replace(
        self, worker: PoolWorker[Item, Result], error: WorkerExitedError, queue: Queue[Item]
    ) -> Generator[tuple[Item, Result | WorkerFailure]]:
        self._workers.remove(worker)
        worker.stop(0.0)
        lost = worker.items
        if not lost:
            self._failed_starts += 1
            if not self._retries or self._failed_starts > _MAX_FAILED_STARTS:
                raise MlgoError(
                    f"expected a worker that starts, got {error.how} before its first item; read its standard error, "
                    "try jobs=1, and in a script start it below `if __name__ == '__main__':`"
                )
        if len(lost) == 1:
            self._exits[lost[0]] += 1
            if self._exits[lost[0]] > self._retries:
                yield lost.pop(), WorkerFailure(error.how, error.status)
        queue.put_back(lost)
        self._run_alone.update(lost)
        if len(queue):
            self._workers.append(self.start_worker())
            self._assign_to_idle(queue)

    def _assign_to_idle(self, queue: Queue[Item]) -> None:
        for worker in self._workers:
            if worker.ready and not worker.items:
                self._assign(worker, queue)

    def _assign(self, worker: PoolWorker[Item, Result], queue: Queue[Item]) -> None:
        """Assign as many items as the worker has capacity for, at most its share of the queue."""
        free = self._capacity - len(worker.items)
        count = min(free, -(-len(queue) // len(self._workers)))
        if self._paces and self.interval:
            # The last items are spread over all workers.
            largest = len(queue) // (2 * len(self._workers))
            count = max(count, min(free + int(self.interval / median(self._paces)), largest))
        taken: list[Item] = []
        while len(taken) < count and (item := queue.take()) is not None:
            if item in self._run_alone and (taken or worker.items):
                queue.put_back([item])
                break
            taken.append(item)
            if item in self._run_alone:
                break
        # A worker with items waits for a message, also for an empty one.
        if taken or worker.items:
            worker.items += taken
            worker.send(taken)

    def close(self) -> None:
        """Stop all workers. Idempotent."""
        self._stop_all(_STOP_SECONDS)

    def _stop_all(self, timeout: float) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.stop(timeout if worker.ready and not worker.items else 0.0)
