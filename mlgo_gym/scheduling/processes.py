"""Work in worker processes of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling.work import Item, Result, Runner, WorkerFailure
from mlgo_gym.scheduling.workers import Worker, Workers

_EXIT_SECONDS = 10.0  # in which a worker must exit after it has closed its connection, or was killed


class _ProcessWorker(Worker[Item, Result]):
    def __init__(self, start: Callable[[int], Runner[Item, Result]], capacity: int) -> None:
        super().__init__()
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, start, capacity), daemon=True)
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


class Processes(Workers[Item, Result]):
    """At most `jobs` worker processes of this machine; the arguments are those of `Execution.workers()`."""

    def __init__(self, start: Callable[[int], Runner[Item, Result]], jobs: int, capacity: int = 1) -> None:
        super().__init__(jobs, capacity)
        self._start = start

    def start_worker(self) -> Worker[Item, Result]:
        """Start a process."""
        return _ProcessWorker(self._start, self._capacity)

    def wait(self, workers: Sequence[Worker[Item, Result]]) -> list[Worker[Item, Result]]:
        """Wait for a message or the end of a connection."""
        by_connection = {worker.connection: worker for worker in workers if isinstance(worker, _ProcessWorker)}
        # Typeshed allows other objects.
        return [by_connection[readable] for readable in connection.wait(list(by_connection))]  # type: ignore[index]


def _work(channel: Connection, start: Callable[[int], Runner[Any, Any]], capacity: int) -> None:
    """Work in a worker process: reply to each message with items, until one is None."""
    # Its compilers exit with this process, as soon as its parent has exited.
    threading.Thread(target=_follow_parent, daemon=True).start()
    try:
        runner = start(capacity)
    except MlgoError as error:
        channel.send(error)
        return
    channel.send([])
    while (items := channel.recv()) is not None:
        for item in items:
            runner.submit(item)
        channel.send(runner.collect())
    runner.close()


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
