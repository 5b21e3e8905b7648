"""Workers in this process, in worker processes and of a script: one result per item; only a deadly item is lost."""

import os
import signal
from collections import Counter, deque
from collections.abc import Callable
from contextlib import closing

import pytest

from mlgo_gym import Execution, MlgoError
from mlgo_gym.scheduling import FileStore, RemoteWork, StoredFiles, WorkerFailure, Workers, processes
from mlgo_gym.scheduling.workers import Worker

DEADLY = 3
Squares = Workers[int, tuple[int, int]]


def compute(number: int) -> tuple[int, int]:
    """Return the square and the process that computed it."""
    if number == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2, os.getpid()


def start() -> Callable[[int], tuple[int, int]]:
    return compute


def no_cluster() -> RemoteWork[int, tuple[int, int]]:
    raise AssertionError("no cluster is named")


def fail_to_start() -> Callable[[int], tuple[int, int]]:
    raise MlgoError("no compiler")


def check_squares(workers: Squares, items: range, lost: dict[int, WorkerFailure]) -> set[int]:
    """Run items, and return the processes that computed them."""
    results = dict(workers.run(deque(items)))
    assert {item: result for item, result in results.items() if isinstance(result, WorkerFailure)} == lost
    squares = {item: result for item, result in results.items() if not isinstance(result, WorkerFailure)}
    assert {item: result[0] for item, result in squares.items()} == {i: i**2 for i in items if i not in lost}
    return {result[1] for result in squares.values()}


def leave_unfinished(workers: Squares) -> None:
    with closing(workers.run(deque([5, 6, 7]))) as results:
        next(results)


def test_one_job_is_this_process_and_numbers_below_one_are_refused() -> None:
    with Execution().workers(start, no_cluster) as workers:
        assert check_squares(workers, range(3), {}) == {os.getpid()}
        assert check_squares(workers, range(0), {}) == set()
        leave_unfinished(workers)
        assert check_squares(workers, range(8, 10), {}) == {os.getpid()}
    with pytest.raises(MlgoError, match="expected jobs ≥ 1, got 0"):
        Execution(0)
    with pytest.raises(MlgoError, match="no compiler"):
        list(Execution().workers(fail_to_start, no_cluster).run(deque([1])))


def test_processes_stay_for_the_next_queue_and_only_an_item_that_kills_its_worker_is_lost() -> None:
    with Execution(2).workers(start, no_cluster) as workers:
        check_squares(workers, range(8), {DEADLY: WorkerFailure("signal 9 (SIGKILL)", -9)})
        processes = check_squares(workers, range(10, 12), {}) | check_squares(workers, range(12, 14), {})
        assert len(processes) <= 2
        assert os.getpid() not in processes
        leave_unfinished(workers)
        check_squares(workers, range(8, 10), {})
    with Execution(2).workers(fail_to_start, no_cluster) as workers, pytest.raises(MlgoError, match="no compiler"):
        list(workers.run(deque(range(20))))


class Scripted(Worker[int, int]):
    """A worker that exits as often as a counter shows for its item."""

    def __init__(self, exits: Counter[int]) -> None:
        super().__init__()
        self.exits, self.stopped = exits, False

    def send(self, item: int) -> None:
        """The item of the worker shows it."""

    def receive(self) -> int | WorkerFailure:
        if self.item is not None and self.exits[self.item]:
            self.exits[self.item] -= 1
            return WorkerFailure("exit status 3", 3)
        return self.item or 0

    def stop(self, timeout: float) -> None:
        self.stopped = True


@pytest.mark.parametrize(("retries", "lost"), [(0, {2, 5}), (1, {5}), (2, set())])
def test_each_item_has_one_result_and_one_whose_worker_exited_is_retried(retries: int, lost: set[int]) -> None:
    started: list[Scripted] = []
    exits = Counter({2: 1, 5: 2})

    def begin() -> Scripted:
        started.append(Scripted(exits))
        return started[-1]

    with Workers(begin, lambda busy: busy, 2, retries) as pool:
        found = dict(pool.run(deque(range(1, 9))))
    assert {item for item, result in found.items() if isinstance(result, WorkerFailure)} == lost
    assert set(found) == set(range(1, 9))
    assert all(worker.stopped for worker in started)


def test_files_are_found_by_name_fetched_once_and_removed() -> None:
    fetched = []

    def fetch() -> StoredFiles:
        fetched.append(1)
        return {"a/b": b"content", "c": b""}

    store = FileStore()
    store.put("first", fetch)
    store.put("first", fetch)
    store.put("second", lambda: {"c": b"other"})
    first, second = store.folder("first"), store.folder("second")
    contents = [path.read_bytes() for path in (first / "a/b", first / "c", second / "c")]
    assert (contents, fetched) == ([b"content", b"", b"other"], [1])
    with pytest.raises(MlgoError, match="expected the files of one of this worker's items, got 'calls'"):
        store.folder("calls")
    store.close()
    store.close()
    assert not first.parent.exists()


def stop(_: int) -> None:
    """Close the connection of the worker, and stop the process."""
    os.closerange(3, 100)
    os.kill(os.getpid(), signal.SIGSTOP)


def start_stopped() -> Callable[[int], None]:
    return stop


@pytest.mark.slow
def test_a_worker_that_closes_its_connection_and_stays_is_killed() -> None:
    with processes(start_stopped, 1) as pool:
        assert list(pool.run(deque([1]))) == [(1, WorkerFailure("signal 9 (SIGKILL)", -9))]
