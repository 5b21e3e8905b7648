"""Workers that share a queue: assignment of items, and workers that exit; independent of their kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Generic

from typing_extensions import Self

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling.work import Item, Queue, Result, Runner, WorkerFailure

_STOP_SECONDS = 5.0

_MAX_FAILED_STARTS = 3
"""Maximum number of consecutive workers that exit before their first item, where items are retried."""


class Worker(ABC, Generic[Item, Result]):
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
    def receive(self) -> Sequence[tuple[Item, Result]] | WorkerFailure:
        """Return the message that `Workers.wait()` announced: results, none in the first, or how the worker exited.

        Raises:
            MlgoError: No worker can do this work.
        """

    @abstractmethod
    def stop(self, timeout: float) -> None:
        """Stop the worker; kill it if it has not exited after `timeout` seconds."""


class Workers(ABC, Generic[Item, Result]):
    """Runs the items of a queue: in this process, in worker processes, or on a cluster.

    A worker starts when there is an item for it. One that exits while it works on one item is replaced. The item is
    retried, then yielded as `WorkerFailure`. If it worked on several items, each is retried alone, which shows the one
    that made it exit.

    Args:
        jobs: Maximum number of workers (≥ 1).
        capacity: Number of items that a worker works on at the same time (≥ 1).
        retries: Number of times that an item is retried after its worker exited.
    """

    def __init__(self, jobs: int, capacity: int, retries: int = 0) -> None:
        self._jobs = jobs
        self._capacity = capacity
        self._retries = retries
        self._workers: list[Worker[Item, Result]] = []
        # Items that run alone, because a worker exited with them, and how many exited with the item alone.
        self._exits: Counter[Item] = Counter()
        self._failed_starts = 0

    @abstractmethod
    def start_worker(self) -> Worker[Item, Result]:
        """Return a new worker; raise `MlgoError` if it cannot start."""

    @abstractmethod
    def wait(self, workers: Sequence[Worker[Item, Result]]) -> Iterable[Worker[Item, Result]]:
        """Wait until some of the workers have sent a message or exited, and return these."""

    def run(self, queue: Queue[Item]) -> Generator[tuple[Item, Result | WorkerFailure], None, None]:
        """Yield each item of a queue with its result as soon as it is finished, in no particular order.

        Closing the generator early ends the unfinished work. `run()` may be called again afterwards.

        Raises:
            MlgoError: A worker cannot start.
        """
        workers = self._workers
        try:
            for _ in range(min(self._jobs, len(queue)) - len(workers)):
                workers.append(self.start_worker())
            self._assign_to_idle(queue)
            while busy := [worker for worker in workers if worker.items or not worker.ready]:
                for worker in self.wait(busy):
                    message = worker.receive()
                    if isinstance(message, WorkerFailure):
                        yield from self._replace(worker, message, queue)
                        continue
                    worker.ready = True
                    self._failed_starts = 0
                    for item, result in message:
                        worker.items.remove(item)
                        self._exits.pop(item, None)
                        yield item, result
                    self._assign(worker, queue)
        except BaseException:
            self._stop_all(0.0)
            raise

    def _replace(
        self, worker: Worker[Item, Result], failure: WorkerFailure, queue: Queue[Item]
    ) -> Generator[tuple[Item, WorkerFailure], None, None]:
        self._workers.remove(worker)
        worker.stop(0.0)
        lost = worker.items
        if not lost:
            self._failed_starts += 1
            if not self._retries or self._failed_starts > _MAX_FAILED_STARTS:
                raise MlgoError(
                    f"expected a worker that starts, got {failure.how} before its first item; read its standard error, "
                    "try jobs=1, and in a script start it below `if __name__ == '__main__':`"
                )
        for item in lost:
            self._exits[item] += len(lost) == 1
        if len(lost) == 1 and self._exits[lost[0]] > self._retries:
            yield lost.pop(), failure
        queue.put_back(lost)
        if len(queue):
            self._workers.append(self.start_worker())
            self._assign_to_idle(queue)

    def _assign_to_idle(self, queue: Queue[Item]) -> None:
        for worker in self._workers:
            if worker.ready and not worker.items:
                self._assign(worker, queue)

    def _assign(self, worker: Worker[Item, Result], queue: Queue[Item]) -> None:
        """Assign as many items as the worker has capacity for, at most its share of the queue."""
        count = min(self._capacity - len(worker.items), -(-len(queue) // len(self._workers)))
        taken: list[Item] = []
        while len(taken) < count and (item := queue.take()) is not None:
            if item in self._exits and (taken or worker.items):
                queue.put_back([item])
                break
            taken.append(item)
            if item in self._exits:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _LocalWorker(Worker[Item, Result]):
    def __init__(self, runner: Runner[Item, Result]) -> None:
        super().__init__()
        self._runner = runner

    def send(self, items: Sequence[Item]) -> None:
        for item in items:
            self._runner.submit(item)

    def receive(self) -> Sequence[tuple[Item, Result]]:
        return self._runner.collect()

    def stop(self, timeout: float) -> None:  # noqa: ARG002 - it never waits
        self._runner.close()


class InProcess(Workers[Item, Result]):
    """One worker, which is this process; an exception of the work leaves `run()`.

    The arguments are those of `Execution.workers()`.
    """

    def __init__(self, start: Callable[[int], Runner[Item, Result]], capacity: int = 1) -> None:
        super().__init__(1, capacity)
        self._start = start

    def start_worker(self) -> Worker[Item, Result]:
        """Start the runner."""
        return _LocalWorker(self._start(self._capacity))

    def wait(self, workers: Sequence[Worker[Item, Result]]) -> Sequence[Worker[Item, Result]]:
        """Return the worker: it works in `receive()`."""
        return workers
