"""Workers that share a queue of items: this process, or processes of this machine."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Generic, Protocol, TypeVar

from typing_extensions import Self

from mlgo_gym.errors import MlgoError

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")

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


class Queue(Protocol[Item]):
    """Source of items, such as a deque; its length is the number of items in it."""

    def popleft(self) -> Item:
        """Remove and return the next item."""

    def appendleft(self, item: Item, /) -> None:
        """Return an unfinished item to the front of the queue."""

    def __len__(self) -> int: ...


class Worker(ABC, Generic[Item, Result]):
    """One worker: `ready` once it has started; `item` is the one that it works on, None without one."""

    def __init__(self) -> None:
        self.ready = False
        self.item: Item | None = None

    @abstractmethod
    def send(self, item: Item) -> None:
        """Send an item. The worker replies with its result."""

    @abstractmethod
    def receive(self) -> Result | WorkerFailure:
        """Return the message that `Workers.wait()` announced: how the worker exited, or a result, none in the first.

        Raises `MlgoError` if no worker can do this work.
        """

    @abstractmethod
    def stop(self, timeout: float) -> None:
        """Stop the worker; kill it if it has not exited after `timeout` seconds."""


class Workers(Generic[Item, Result]):
    """Runs the items of a queue: in this process, in worker processes, or on a cluster.

    A worker starts when there is an item for it. One that exits is replaced; its item is retried, then yielded as
    `WorkerFailure`.

    Args:
        start_worker: Returns a new worker; raises `MlgoError` if it cannot start.
        wait: Waits until some of the workers have sent a message or exited, and returns these.
        jobs: Maximum number of workers.
        retries: Number of times that an item is retried after its worker exited.
    """

    def __init__(
        self,
        start_worker: Callable[[], Worker[Item, Result]],
        wait: Callable[[Sequence[Worker[Item, Result]]], Iterable[Worker[Item, Result]]],
        jobs: int,
        retries: int = 0,
    ) -> None:
        self._start_worker, self._wait = start_worker, wait
        self._jobs, self._retries = jobs, retries
        self._workers: list[Worker[Item, Result]] = []
        self._exits: Counter[Item] = Counter()
        self._failed_starts = 0

    def run(self, queue: Queue[Item]) -> Generator[tuple[Item, Result | WorkerFailure], None, None]:
        """Yield each item of a queue with its result as soon as it is finished, in no particular order.

        Closing the generator early ends the unfinished work; `run()` may be called again. Raises `MlgoError` if a
        worker cannot start.
        """
        try:
            while busy := self._assign(queue):
                for worker in self._wait(busy):
                    message = worker.receive()
                    item, worker.item = worker.item, None
                    if isinstance(message, WorkerFailure):
                        self._workers.remove(worker)
                        worker.stop(0.0)
                        if item is None:
                            self._count_failed_start(message)
                        elif self._exits[item] < self._retries:
                            self._exits[item] += 1
                            queue.appendleft(item)
                        else:
                            yield item, message
                        continue
                    worker.ready = True
                    self._failed_starts = 0
                    if item is not None:
                        del self._exits[item]
                        yield item, message
        except BaseException:
            self._stop_all(0.0)
            raise

    def _count_failed_start(self, failure: WorkerFailure) -> None:
        self._failed_starts += 1
        if not self._retries or self._failed_starts > _MAX_FAILED_STARTS:
            raise MlgoError(
                f"expected a worker that starts, got {failure.how} before its first item; read its standard error, "
                "try jobs=1, and in a script start it below `if __name__ == '__main__':`"
            )

    def _assign(self, queue: Queue[Item]) -> list[Worker[Item, Result]]:
        """Start the workers that are missing, assign waiting items, and return the workers that send a message."""
        unfinished = len(queue) + sum(worker.item is not None for worker in self._workers)
        for _ in range(min(self._jobs, unfinished) - len(self._workers)):
            self._workers.append(self._start_worker())
        for worker in self._workers:
            if worker.ready and worker.item is None and len(queue):
                worker.item = queue.popleft()
                worker.send(worker.item)
        return [worker for worker in self._workers if worker.item is not None or not worker.ready]

    def close(self) -> None:
        """Stop all workers. Idempotent."""
        self._stop_all(_STOP_SECONDS)

    def _stop_all(self, timeout: float) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.stop(timeout if worker.ready and worker.item is None else 0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _LocalWorker(Worker[Item, Result]):
    def __init__(self, work: Callable[[Item], Result]) -> None:
        super().__init__()
        self.ready = True
        self._work = work

    def send(self, item: Item) -> None:
        """Wait for `receive()`."""

    def receive(self) -> Result:
        assert self.item is not None, "a ready worker sends nothing without an item"
        return self._work(self.item)

    def stop(self, timeout: float) -> None:
        """There is nothing to stop."""


def in_process(start: Callable[[], Callable[[Item], Result]]) -> Workers[Item, Result]:
    """Return one worker, which is this process; an exception of the work leaves `run()`."""
    return Workers(lambda: _LocalWorker(start()), lambda workers: workers, 1)


class _ProcessWorker(Worker[Item, Result]):
    def __init__(self, start: Callable[[], Callable[[Item], Result]]) -> None:
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

    def send(self, item: Item) -> None:
        self.connection.send(item)

    def receive(self) -> Result | WorkerFailure:
        try:
            message: Result | MlgoError = self.connection.recv()
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
    start: Callable[[], Callable[[Item], Result]], jobs: int, *, seconds: float | None = None
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

    return Workers(lambda: _ProcessWorker(start), wait, jobs)


def _work(channel: Connection, start: Callable[[], Callable[[Any], Any]]) -> None:
    """Work in a worker process: reply to each item with its result, until one is None."""
    # Its compilers exit with this process, as soon as its parent has exited.
    threading.Thread(target=_follow_parent, daemon=True).start()
    try:
        compute = start()
    except MlgoError as error:
        channel.send(error)
        return
    channel.send(None)
    while (item := channel.recv()) is not None:
        channel.send(compute(item))


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
