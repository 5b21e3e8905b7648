"""Episodes in worker processes: one assignment at a time to each, and nothing waits for a worker that has died."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Generator
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Protocol

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.episode_result import FAILED, EpisodeResult
from mlgo_gym.evaluation.episode_runner import Assignment, EpisodeRunner, RunnerSettings

_GOODBYE_SECONDS = 5.0


class Queue(Protocol):
    """Where assignments come from and results go."""

    def take(self) -> Assignment | None:
        """Return the next assignment, or None when there is none left."""

    def __len__(self) -> int:
        """Return how many are left."""


class _Worker:
    """A process, and what it is busy with."""

    def __init__(self, settings: RunnerSettings) -> None:
        context = multiprocessing.get_context("spawn")
        self.ready = False
        self.assignment: Assignment | None = None
        self.connection, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_work, args=(theirs, settings), daemon=True)
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

    def hand(self, assignment: Assignment | None) -> None:
        self.assignment = assignment
        self.connection.send(assignment)

    def end(self, patience: float) -> None:
        self.process.join(patience)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()
        self.process.close()


def run_in_workers(settings: RunnerSettings, queue: Queue, jobs: int) -> Generator[EpisodeResult, None, None]:
    """Run assignments in processes, and give each result as soon as it is there.

    A worker that dies in an episode makes that episode a failure, and another worker takes its place. When the
    iteration is left, also by an exception, all workers and their compilers are ended at once.

    Args:
        settings: environment and policies; they are sent to the workers.
        queue: the assignments; asked for the next one each time that a worker is free.
        jobs: the most workers.

    Raises:
        MlgoError: a worker cannot start.
    """
    workers: list[_Worker] = []
    try:
        workers.extend(_Worker(settings) for _ in range(min(jobs, len(queue))))
        while workers:
            by_connection = {worker.connection: worker for worker in workers}
            for readable in connection.wait(list(by_connection)):
                assert isinstance(readable, Connection)
                worker = by_connection[readable]
                try:
                    message = readable.recv()
                except (EOFError, OSError):
                    workers.remove(worker)
                    yield _obituary(worker)
                    if len(queue):
                        workers.append(_Worker(settings))
                    continue
                if isinstance(message, MlgoError):
                    raise message
                worker.ready = True
                if message is not None:
                    yield message
                assignment = queue.take()
                worker.hand(assignment)
                if assignment is None:
                    workers.remove(worker)
                    worker.end(_GOODBYE_SECONDS)
    finally:
        for worker in workers:
            worker.end(0.0)


def _obituary(worker: _Worker) -> EpisodeResult:
    """Return the failure of the episode that a worker died in.

    Raises:
        MlgoError: it died before its first episode.
    """
    worker.process.join()
    status = worker.process.exitcode or 0
    how = f"signal {-status} ({signal.Signals(-status).name})" if status < 0 else f"exit status {status}"
    assignment, ready = worker.assignment, worker.ready
    worker.end(0.0)
    if not ready or assignment is None:
        raise MlgoError(
            f"a worker process ended with {how} before its first episode; look at what it wrote, try jobs=1, and in a "
            "script call evaluate() below `if __name__ == '__main__':`"
        )
    error = {"kind": "worker", "message": f"the worker process died: {how}", "exit_status": status}
    return EpisodeResult(*assignment, FAILED, error=error)


def _work(channel: Connection, settings: RunnerSettings) -> None:
    """Run assignments until there are no more, or nobody is there to take results."""
    threading.Thread(target=_follow_parent, daemon=True).start()
    try:
        runner = EpisodeRunner(settings)
    except MlgoError as error:
        channel.send(error)
        return
    result: EpisodeResult | None = None
    while True:
        channel.send(result)
        assignment = channel.recv()
        if assignment is None:
            break
        result = runner.run(assignment)
    runner.close()


def _follow_parent() -> None:
    """End this process when its parent has ended, however that came about."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
