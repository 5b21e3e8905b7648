"""Work in processes of this machine: some items at a time to each, and nothing waits for a process that has died."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling.crew import Crew, Gone, Member
from mlgo_gym.scheduling.parent import end_with_parent
from mlgo_gym.scheduling.work import Item, Result, Runner


class _Process(Member[Item, Result]):
    """A process of this machine."""

    def __init__(self, start: Callable[[int], Runner[Item, Result]], room: int) -> None:
        super().__init__(room)
        context = multiprocessing.get_context("spawn")
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

    def send(self, items: Sequence[Item]) -> None:
        self.connection.send(items)

    def receive(self) -> Sequence[tuple[Item, Result]]:
        try:
            message = self.connection.recv()
        except (EOFError, OSError) as error:
            self.process.join()
            status = self.process.exitcode or 0
            how = f"signal {-status} ({signal.Signals(-status).name})" if status < 0 else f"exit status {status}"
            raise Gone(how, status) from error
        if isinstance(message, MlgoError):
            raise message
        results: Sequence[tuple[Item, Result]] = message
        return results

    def end(self, patience: float) -> None:
        if patience:
            with contextlib.suppress(OSError):
                self.connection.send(None)
        self.process.join(patience)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()
        self.process.close()


class Processes(Crew[Item, Result]):
    """Workers in processes of this machine.

    Args:
        start: makes a runner; it is sent to each process, and told how many items it is given at once.
        jobs: the most processes.
        room: how many items each is given at once.
    """

    def __init__(self, start: Callable[[int], Runner[Item, Result]], jobs: int, room: int = 1) -> None:
        super().__init__(jobs, room)
        self._start = start

    def hire(self, room: int) -> Member[Item, Result]:
        """Start a process."""
        return _Process(self._start, room)

    def wait(self, members: Sequence[Member[Item, Result]], seconds: float | None) -> Iterator[Member[Item, Result]]:
        """Wait for messages, and for the ends of connections."""
        by_connection = {member.connection: member for member in members if isinstance(member, _Process)}
        for readable in connection.wait(list(by_connection), seconds):
            assert isinstance(readable, Connection)
            yield by_connection[readable]


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
