"""Work in processes of this machine: some items at a time to each, and nothing waits for a process that has died."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from collections.abc import Callable, Generator, Iterable, Sequence
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Generic

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling.parent import end_with_parent
from mlgo_gym.scheduling.work import Item, Lost, Queue, Result, Runner

_GOODBYE_SECONDS = 5.0


class _Worker(Generic[Item, Result]):
    """A process, and what it is busy with."""

    def __init__(self, start: Callable[[int], Runner[Item, Result]], room: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.ready = False
        self.room = room
        self.items: list[Item] = []
        self.connection, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_work, args=(theirs, start, room), daemon=True)
        # Ctrl-C reaches the whole process group; workers inherit the mask, and the parent ends them. The tracker's own
        # start unblocks the signal, so that must not happen in between.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.process.start()
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise MlgoError(
                f"a worker process was to be given the corpus and the policies, and they cannot be sent: {error}; name "
                "them by specification, or use jobs=1"
            ) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def hand(self, items: Sequence[Item]) -> None:
        self.items += items
        self.connection.send(items)

    def note(self, results: Iterable[tuple[Item, Result]]) -> None:
        done = {item for item, _ in results}
        self.items = [each for each in self.items if each not in done]

    def end(self, patience: float) -> None:
        self.process.join(patience)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()
        self.process.close()


class Processes(Generic[Item, Result]):
    """Workers in processes, started when there is something to do.

    A process that dies at an item makes this item `Lost`, and another process takes its place. If it was busy with
    several they are all begun anew, one after the other, so that it shows which of them was to blame.

    Args:
        start: makes a runner; it is sent to each process, and told how many items it is given at once.
        jobs: the most processes.
        room: how many items each is given at once.
    """

    def __init__(self, start: Callable[[int], Runner[Item, Result]], jobs: int, room: int = 1) -> None:
        self._start = start
        self._jobs = jobs
        self._room = room
        self._workers: list[_Worker[Item, Result]] = []

    def run(self, queue: Queue[Item]) -> Generator[tuple[Item, Result | Lost], None, None]:
        """Yield each item of a queue with its result as soon as it is there.

        When the iteration is left before its end, all processes and their compilers are ended at once.

        Raises:
            MlgoError: a process cannot start.
        """
        whole = False
        try:
            yield from self._run(queue)
            whole = True
        finally:
            if not whole:
                self._end(0.0)

    def _run(self, queue: Queue[Item]) -> Generator[tuple[Item, Result | Lost], None, None]:
        workers = self._workers
        workers.extend(
            _Worker(self._start, self._room) for _ in range(min(self._jobs - len(workers), len(queue) - len(workers)))
        )
        for worker in workers:
            if worker.ready:
                self._feed(worker, queue)
        while busy := [worker for worker in workers if worker.items or not worker.ready]:
            by_connection = {worker.connection: worker for worker in busy}
            for readable in connection.wait(list(by_connection)):
                assert isinstance(readable, Connection)
                worker = by_connection[readable]
                try:
                    message = readable.recv()
                except (EOFError, OSError):
                    workers.remove(worker)
                    if len(worker.items) > 1:
                        queue.put_back(worker.items)
                        worker.end(0.0)
                        self._room = 1
                    else:
                        yield _obituary(worker)
                    if len(queue):
                        workers.append(_Worker(self._start, self._room))
                    continue
                if isinstance(message, MlgoError):
                    raise message
                worker.ready = True
                worker.note(message)
                yield from message
                self._feed(worker, queue)

    def _feed(self, worker: _Worker[Item, Result], queue: Queue[Item]) -> None:
        """Give a worker as much as it has room for, and no more than its share of what is left."""
        share = min(worker.room - len(worker.items), -(-len(queue) // len(self._workers)))
        taken = [item for _ in range(share) if (item := queue.take()) is not None]
        # It waits to hear what comes next, unless it has nothing to do.
        if taken or worker.items:
            worker.hand(taken)

    def close(self) -> None:
        """End all processes. Idempotent."""
        for worker in self._workers:
            if worker.ready and not worker.items:
                worker.connection.send(None)
        self._end(_GOODBYE_SECONDS)

    def _end(self, patience: float) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.end(patience if worker.ready and not worker.items else 0.0)

    def __enter__(self) -> Processes[Item, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _obituary(worker: _Worker[Any, Any]) -> tuple[Any, Lost]:
    """Return the item that a worker died at, and how it died.

    Raises:
        MlgoError: it died before its first item.
    """
    worker.process.join()
    status = worker.process.exitcode or 0
    how = f"signal {-status} ({signal.Signals(-status).name})" if status < 0 else f"exit status {status}"
    items, ready = worker.items, worker.ready
    worker.end(0.0)
    if not ready or not items:
        raise MlgoError(
            f"a worker process ended with {how} before its first item; look at what it wrote, try jobs=1, and in a "
            "script start it below `if __name__ == '__main__':`"
        )
    return items[0], Lost(how, status)


def _work(channel: Connection, start: Callable[[int], Runner[Any, Any]], room: int) -> None:
    """Work on items until there are no more, or nobody is there to take results."""
    end_with_parent()
    try:
        runner = start(room)
    except MlgoError as error:
        channel.send(error)
        return
    channel.send([])
    busy = 0
    while (items := channel.recv()) is not None:
        for item in items:
            runner.take(item)
        busy += len(items)
        if busy:
            results = runner.go_on()
            busy -= len(results)
            channel.send(results)
    runner.close()
