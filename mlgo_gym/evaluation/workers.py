"""Episodes in worker processes: some assignments at a time to each, and nothing waits for a worker that has died."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
from collections.abc import Generator, Iterable, Sequence
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Protocol

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.contestants import Contestants, RunnerSettings
from mlgo_gym.evaluation.episode_record import Assignment
from mlgo_gym.evaluation.episode_result import FAILED, EpisodeResult
from mlgo_gym.evaluation.episode_runner import EpisodeRunner
from mlgo_gym.evaluation.parent import end_with_parent

_GOODBYE_SECONDS = 5.0


class Queue(Protocol):
    """Where assignments come from and results go."""

    def take(self) -> Assignment | None:
        """Return the next assignment, or None when there is none left."""

    def put_back(self, assignments: Sequence[Assignment]) -> None:
        """Take assignments back that have no result, to be taken again before all others."""

    def __len__(self) -> int:
        """Return how many are left."""


class _Worker:
    """A process, and what it is busy with."""

    def __init__(self, settings: RunnerSettings, envs: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.ready = False
        self.room = envs
        self.assignments: list[Assignment] = []
        self.connection, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_work, args=(theirs, settings, envs), daemon=True)
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

    def hand(self, assignments: Sequence[Assignment]) -> None:
        self.assignments += assignments
        self.connection.send(assignments)

    def note(self, results: Iterable[EpisodeResult]) -> None:
        done = {(result.policy, result.module) for result in results}
        self.assignments = [each for each in self.assignments if (each.policy, each.module) not in done]

    def end(self, patience: float) -> None:
        self.process.join(patience)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.connection.close()
        self.process.close()


def run_in_workers(
    settings: RunnerSettings, queue: Queue, jobs: int, envs: int = 1
) -> Generator[EpisodeResult, None, None]:
    """Run assignments in processes, and give each result as soon as it is there.

    A worker that dies in an episode makes that episode a failure, and another worker takes its place. If it was busy
    with several they are all begun anew, one after the other, so that it shows which of them was to blame. When the
    iteration is left, also by an exception, all workers and their compilers are ended at once.

    Args:
        settings: environment and policies; they are sent to the workers.
        queue: the assignments; asked for the next one each time that a worker is free.
        jobs: the most workers.
        envs: how many episodes each worker runs at once.

    Raises:
        MlgoError: a worker cannot start.
    """
    workers: list[_Worker] = []
    try:
        workers.extend(_Worker(settings, envs) for _ in range(min(jobs, len(queue))))
        while workers:
            by_connection = {worker.connection: worker for worker in workers}
            for readable in connection.wait(list(by_connection)):
                assert isinstance(readable, Connection)
                worker = by_connection[readable]
                try:
                    message = readable.recv()
                except (EOFError, OSError):
                    workers.remove(worker)
                    if len(worker.assignments) > 1:
                        queue.put_back(worker.assignments)
                        worker.end(0.0)
                        envs = 1
                    else:
                        yield _obituary(worker)
                    if len(queue):
                        workers.append(_Worker(settings, envs))
                    continue
                if isinstance(message, MlgoError):
                    raise message
                worker.ready = True
                worker.note(message)
                yield from message
                worker.hand(_next(queue, worker.room - len(worker.assignments), len(workers)))
                if not worker.assignments:
                    workers.remove(worker)
                    worker.end(_GOODBYE_SECONDS)
    finally:
        for worker in workers:
            worker.end(0.0)


def _next(queue: Queue, room: int, workers: int) -> list[Assignment]:
    """Return assignments for a worker: as many as it has room for, and no more than its share of what is left."""
    share = min(room, -(-len(queue) // workers))
    taken = [queue.take() for _ in range(share)]
    return [assignment for assignment in taken if assignment is not None]


def _obituary(worker: _Worker) -> EpisodeResult:
    """Return the failure of the episode that a worker died in.

    Raises:
        MlgoError: it died before its first episode.
    """
    worker.process.join()
    status = worker.process.exitcode or 0
    how = f"signal {-status} ({signal.Signals(-status).name})" if status < 0 else f"exit status {status}"
    assignments, ready = worker.assignments, worker.ready
    worker.end(0.0)
    if not ready or not assignments:
        raise MlgoError(
            f"a worker process ended with {how} before its first episode; look at what it wrote, try jobs=1, and in a "
            "script call evaluate() below `if __name__ == '__main__':`"
        )
    error = {"kind": "worker", "message": f"the worker process died: {how}", "exit_status": status}
    return EpisodeResult(*assignments[0], FAILED, error=error)


def _work(channel: Connection, settings: RunnerSettings, envs: int) -> None:
    """Run assignments until there are no more, or nobody is there to take results."""
    end_with_parent()
    try:
        runner = EpisodeRunner(Contestants(settings), envs)
    except MlgoError as error:
        channel.send(error)
        return
    busy = 0
    results: list[EpisodeResult] = []
    while True:
        channel.send(results)
        assignments = channel.recv()
        for assignment in assignments:
            runner.take(assignment)
        busy += len(assignments) - len(results)
        if not busy:
            break
        results = runner.go_on()
    runner.close()
