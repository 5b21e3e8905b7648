"""Items, runners that work on them, and workers that share a queue: this process, or processes of this machine."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Generic, Protocol, TypeVar

from typing_extensions import Self

from mlgo_gym.errors import MlgoError

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)

_STOP_SECONDS = 5.0

_EXIT_SECONDS = 10.0
"""Time in which a worker must exit after it has closed its connection, or was killed."""

_MAX_FAILED_STARTS = 3
"""Maximum number of consecutive workers that exit before their first item, where items are retried."""


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """Replaces the result of an item whose worker exited: the cause in words, and the exit status, < 0 for a signal."""

    how: str
    status: int

    def __str__(self) -> str:
        return f"the worker exited: {self.how}"


class Runner(Protocol[Item, Result_co]):
    """Works on one or several items at the same time."""

    def work(self, items: Sequence[Item]) -> Sequence[tuple[Item, Result_co]]:
        """Add items, work until an item is finished, and return the finished items; nothing if there is no item."""

    def close(self) -> None:
        """Release everything. Idempotent."""


class SequentialRunner(Generic[Item, Result]):
    """Works on one item at a time, in the order of arrival; `compute` returns the result of an item."""

    def __init__(self, compute: Callable[[Item], Result]) -> None:
        self._compute = compute
        self._pending: deque[Item] = deque()

    def work(self, items: Sequence[Item]) -> list[tuple[Item, Result]]:
        """Add items, and return the oldest pending item with its result."""
        self._pending.extend(items)
        return [(item, self._compute(item)) for item in [self._pending.popleft()]] if self._pending else []

    def close(self) -> None:
        """Drop the pending items."""
        self._pending.clear()


class Queue(Protocol[Item]):
    """Source of items, such as a deque; its length is the number of items in it."""

    def popleft(self) -> Item:
        """Remove and return the next item."""

    def extendleft(self, items: Iterable[Item], /) -> None:
        """Return unfinished items, the last one first, to the front of the queue."""

    def __len__(self) -> int: ...


class Worker(ABC, Generic[Item, Result]):
    """One worker, whether it has started, and the items that it works on."""

    def __init__(self) -> None:
        self.ready = False
        self.items: list[Item] = []

    @abstractmethod
    def send(self, items: Sequence[Item]) -> None:
        """Send items; none lets the worker continue. It replies with a message."""

    @abstractmethod
    def receive(self) -> Sequence[tuple[Item, Result]] | WorkerFailure:
        """Return the message that `Workers.wait()` announced: results, none in the first, or how the worker exited.

        Raises `MlgoError` if no worker can do this work.
        """

    @abstractmethod
    def stop(self, timeout: float) -> None:
        """Stop the worker; kill it if it has not exited after `timeout` seconds."""


class Workers(Generic[Item, Result]):
    """Runs the items of a queue: in this process, in worker processes, or on a cluster.

    A worker starts when there is an item for it. One that exits while it works on one item is replaced. The item is
    retried, then yielded as `WorkerFailure`. If it worked on several items, each is retried alone, which shows the one
    that made it exit.

    Args:
        start_worker: Returns a new worker; raises `MlgoError` if it cannot start.
        wait: Waits until some of the workers have sent a message or exited, and returns these.
        jobs: Maximum number of workers.
        capacity: Number of items that a worker works on at the same time.
        retries: Number of times that an item is retried after its worker exited.
    """

    def __init__(
        self,
        start_worker: Callable[[], Worker[Item, Result]],
        wait: Callable[[Sequence[Worker[Item, Result]]], Iterable[Worker[Item, Result]]],
        jobs: int,
        capacity: int,
        retries: int = 0,
    ) -> None:
        self._start_worker, self._wait = start_worker, wait
        self._jobs, self._capacity, self._retries = jobs, capacity, retries
        self._workers: list[Worker[Item, Result]] = []
        # Items that run alone, because a worker exited with them, and how many exited with the item alone.
        self._exits: Counter[Item] = Counter()
        self._failed_starts = 0

    def run(self, queue: Queue[Item]) -> Generator[tuple[Item, Result | WorkerFailure], None, None]:
        """Yield each item of a queue with its result as soon as it is finished, in no particular order.

        Closing the generator early ends the unfinished work; `run()` may be called again. Raises `MlgoError` if a
        worker cannot start.
        """
        workers = self._workers
        try:
            for _ in range(min(self._jobs, len(queue)) - len(workers)):
                workers.append(self._start_worker())
            self._assign_to_idle(queue)
            while busy := [worker for worker in workers if worker.items or not worker.ready]:
                for worker in self._wait(busy):
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
        queue.extendleft(reversed(lost))
        if len(queue):
            self._workers.append(self._start_worker())
            self._assign_to_idle(queue)

    def _assign_to_idle(self, queue: Queue[Item]) -> None:
        for worker in self._workers:
            if worker.ready and not worker.items:
                self._assign(worker, queue)

    def _assign(self, worker: Worker[Item, Result], queue: Queue[Item]) -> None:
        """Assign as many items as the worker has capacity for, at most its share of the queue."""
        count = min(self._capacity - len(worker.items), -(-len(queue) // len(self._workers)))
        taken: list[Item] = []
        while len(taken) < count and len(queue):
            item = queue.popleft()
            if item in self._exits and (taken or worker.items):
                queue.extendleft([item])
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
        self._items: Sequence[Item] = ()

    def send(self, items: Sequence[Item]) -> None:
        self._items = items

    def receive(self) -> Sequence[tuple[Item, Result]]:
        return self._runner.work(self._items)

    def stop(self, timeout: float) -> None:  # noqa: ARG002 - it never waits
        self._runner.close()


def in_process(start: Callable[[], Runner[Item, Result]], capacity: int = 1) -> Workers[Item, Result]:
    """Return one worker, which is this process; an exception of the work leaves `run()`."""
    return Workers(lambda: _LocalWorker(start()), lambda workers: workers, 1, capacity)


class _ProcessWorker(Worker[Item, Result]):
    def __init__(self, start: Callable[[], Runner[Item, Result]]) -> None:
        super().__init__()
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, start), daemon=True)
        # Ctrl-C reaches the whole process group; workers inherit the mask, and the parent ends them. Starting the
        # tracker unblocks the signal, so it must run before.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._process.start()
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise MlgoError(
                f"expected a corpus and policies that can be pickled for a worker process, got {error}; name them by "
                "specification, or use jobs=1"
            ) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def send(self, items: Sequence[Item]) -> None:
        self.connection.send(items)

    def receive(self) -> Sequence[tuple[Item, Result]] | WorkerFailure:
        try:
            message: Sequence[tuple[Item, Result]] | MlgoError = self.connection.recv()
        except (EOFError, OSError):
            status = self._end(_EXIT_SECONDS)
            how = f"signal {-status} ({signal.Signals(-status).name})" if status < 0 else f"exit status {status}"
            return WorkerFailure(how, status)
        if isinstance(message, MlgoError):
            raise message
        return message

    def stop(self, timeout: float) -> None:
        if timeout:
            with contextlib.suppress(OSError):
                self.connection.send(None)
        self._end(timeout)
        self.connection.close()
        # A process that the kernel cannot kill, for instance in a read from a lost disk, cannot be closed.
        with contextlib.suppress(ValueError):
            self._process.close()

    def kill(self) -> None:
        """Kill the process, which `receive()` then reports."""
        self._process.kill()

    def _end(self, seconds: float) -> int:
        """Wait until the process exits, kill it after some seconds, and return its exit status."""
        if not self._exits_within(seconds):
            self._process.kill()
            self._exits_within(_EXIT_SECONDS)
        return self._process.exitcode or 0

    def _exits_within(self, seconds: float) -> bool:
        # join() waits without a deadline for a process that has closed its descriptors and has not exited.
        if self._process.exitcode is not None or self._process.pid is None:
            return True
        pidfd = os.pidfd_open(self._process.pid)
        try:
            return bool(connection.wait([pidfd], seconds)) and self._process.exitcode is not None
        finally:
            os.close(pidfd)


def processes(
    start: Callable[[], Runner[Item, Result]], jobs: int, capacity: int = 1, *, seconds: float | None = None
) -> Workers[Item, Result]:
    """Return at most `jobs` worker processes; after `seconds` from now, those that send nothing are killed."""
    end = None if seconds is None else time.monotonic() + seconds

    def wait(workers: Sequence[Worker[Item, Result]]) -> list[Worker[Item, Result]]:
        by_connection = {worker.connection: worker for worker in workers if isinstance(worker, _ProcessWorker)}
        remaining = None if end is None else max(end - time.monotonic(), 0.0)
        readable = connection.wait(list(by_connection), remaining)
        if not readable:
            for worker in by_connection.values():
                worker.kill()
            readable = list(by_connection)
        return [by_connection[channel] for channel in readable]  # type: ignore[index] # typeshed allows other objects

    return Workers(lambda: _ProcessWorker(start), wait, jobs, capacity)


def _work(channel: Connection, start: Callable[[], Runner[Any, Any]]) -> None:
    """Work in a worker process: reply to each message with items, until one is None."""
    # Its compilers exit with this process, as soon as its parent has exited.
    threading.Thread(target=_follow_parent, daemon=True).start()
    try:
        runner = start()
    except MlgoError as error:
        channel.send(error)
        return
    channel.send([])
    while (items := channel.recv()) is not None:
        channel.send(runner.work(items))
    runner.close()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
