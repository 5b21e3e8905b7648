"""Workers in this process, in worker processes and of a script: one result per item; only a deadly item is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling import Execution, ItemQueue, SequentialRunner, WorkerFailure, Workers
from mlgo_gym.scheduling.file_store import FileStore, StoredFiles
from mlgo_gym.scheduling.worker_pool import PoolWorker, WorkerExitedError, WorkerPool

DEADLY = 3
Squares = Workers[int, tuple[int, int]]


def compute(number: int) -> tuple[int, int]:
    """Return the square and the process that computed it."""
    if number == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2, os.getpid()


def start(capacity: int) -> SequentialRunner[int, tuple[int, int]]:
    if capacity == 9:
        raise MlgoError("no capacity for 9")
    return SequentialRunner(compute)


def check_squares(workers: Squares, items: range, lost: dict[int, WorkerFailure]) -> set[int]:
    """Run items, and return the processes that computed them."""
    results = dict(workers.run(ItemQueue(items)))
    assert {item: result for item, result in results.items() if isinstance(result, WorkerFailure)} == lost
    squares = {item: result for item, result in results.items() if not isinstance(result, WorkerFailure)}
    assert {item: result[0] for item, result in squares.items()} == {i: i**2 for i in items if i not in lost}
    return {result[1] for result in squares.values()}


def leave_unfinished(workers: Squares) -> None:
    with closing(workers.run(ItemQueue([5, 6, 7]))) as results:
        next(results)


def test_one_job_is_this_process_and_numbers_below_one_are_refused() -> None:
    with Execution().workers(start) as workers:
        assert check_squares(workers, range(3), {}) == {os.getpid()}
        assert check_squares(workers, range(0), {}) == set()
        leave_unfinished(workers)
        assert check_squares(workers, range(8, 10), {}) == {os.getpid()}
    with pytest.raises(MlgoError, match="expected jobs ≥ 1, got 0"):
        Execution(0)
    with pytest.raises(MlgoError, match="expected capacity ≥ 1, got 0"):
        Execution().workers(start, 0)


def test_processes_stay_for_the_next_queue_and_only_an_item_that_kills_its_worker_is_lost() -> None:
    with Execution(2).workers(start, 3) as workers:
        check_squares(workers, range(8), {DEADLY: WorkerFailure("signal 9 (SIGKILL)", -9)})
        processes = check_squares(workers, range(10, 12), {}) | check_squares(workers, range(12, 14), {})
        assert len(processes) <= 2
        assert os.getpid() not in processes
        leave_unfinished(workers)
        check_squares(workers, range(8, 10), {})


def test_a_runner_that_cannot_start_is_an_error() -> None:
    with Execution(2).workers(start, 9) as workers, pytest.raises(MlgoError, match="no capacity for 9"):
        list(workers.run(ItemQueue(range(20))))


Answer = Callable[["Scripted", Sequence[int]], Sequence[tuple[int, str]]]


class Scripted(PoolWorker[int, str]):
    """A worker whose messages a function computes from its number and its items."""

    def __init__(self, number: int, capacity: int, pool: Scripts) -> None:
        super().__init__(capacity)
        self.number = number
        self.pool = pool
        self.inbox: list[int] | None = []
        self.stopped = False

    def send(self, items: Sequence[int]) -> None:
        self.inbox = list(items)
        self.pool.sent.append((self.number, tuple(items)))

    def receive(self) -> Sequence[tuple[int, str]]:
        items, self.inbox = self.inbox, None
        assert items is not None
        return self.pool.answer(self, items)

    def stop(self, timeout: float) -> None:
        self.stopped = True


class Scripts(WorkerPool[int, str]):
    """A pool of scripted workers; a worker with an item in `silent` sends no message."""

    def __init__(self, answer: Answer, jobs: int, capacity: int = 1, **more: Any) -> None:
        super().__init__(jobs, capacity, **more)
        self.answer = answer
        self.started: list[Scripted] = []
        self.sent: list[tuple[int, tuple[int, ...]]] = []
        self.silent: set[tuple[int, int]] = set()

    def start_worker(self, capacity: int) -> Scripted:
        self.started.append(Scripted(len(self.started), capacity, self))
        return self.started[-1]

    def wait(self, workers: Sequence[PoolWorker[int, str]], seconds: float | None) -> Iterable[PoolWorker[int, str]]:
        scripted = [worker for worker in workers if isinstance(worker, Scripted)]
        sending = [
            each
            for each in scripted
            if each.inbox is not None and not any((each.number, item) in self.silent for item in each.inbox)
        ]
        assert sending or seconds is not None, "no worker would ever send a message"
        return sending


def square(worker: Scripted, items: Sequence[int]) -> Sequence[tuple[int, str]]:
    return [(item, f"{item} by {worker.number}") for item in items]


def exiting(exits: dict[int, int], pace: float | None = None) -> Answer:
    """Return answers of workers that exit as often as a number says when they have an item."""

    def answer(worker: Scripted, items: Sequence[int]) -> Sequence[tuple[int, str]]:
        worker.pace = worker.pace if pace is None else pace
        for item in items:
            if exits.get(item, 0):
                exits[item] -= 1
                raise WorkerExitedError("signal 9 (SIGKILL)", -9)
        return square(worker, items)

    return answer


@pytest.mark.parametrize(("retries", "lost"), [(0, {2, 5}), (1, {5}), (2, set())])
def test_each_item_has_one_result_and_one_whose_worker_exited_is_retried(retries: int, lost: set[int]) -> None:
    with Scripts(exiting({2: 1, 5: 2}), 2, retries=retries) as pool:
        found = dict(pool.run(ItemQueue(range(8))))
    assert {item for item, result in found.items() if isinstance(result, WorkerFailure)} == lost
    assert set(found) == set(range(8))
    assert all(worker.stopped for worker in pool.started)


def test_a_late_item_is_copied_when_the_queue_is_empty_and_the_slow_worker_is_stopped() -> None:
    with Scripts(square, 2, copies=True, slow_seconds=0.0) as pool:
        pool.silent = {(0, 0)}
        found = dict(pool.run(ItemQueue(range(5))))
        assert found[0] == "0 by 1"
        assert set(found) == set(range(5))
        assert [each for each in pool.sent if 0 in each[1]] == [(0, (0,)), (1, (0,))]
        assert [worker.stopped for worker in pool.started] == [True, False]
        # The next queue replaces the slow worker.
        assert len(dict(pool.run(ItemQueue(range(10, 14))))) == 4
        assert len(pool.started) == 3


def test_costly_messages_carry_several_results_except_at_the_end_and_only_the_deadly_item_is_lost() -> None:
    with Scripts(exiting({}, 0.1), 2, message_seconds=0.25) as pool:
        assert set(dict(pool.run(ItemQueue(range(100))))) == set(range(100))
    assigned = [len(items) for _, items in pool.sent]
    assert max(assigned) == 6  # one for the capacity, and five of 0.1 s in the interval of 0.5 s
    assert assigned[-1] == 1
    assert len(assigned) < 40
    with Scripts(exiting({50: 9}, 0.1), 2, message_seconds=0.25, retries=1) as pool:
        found = dict(pool.run(ItemQueue(range(100))))
    assert {item for item, result in found.items() if isinstance(result, WorkerFailure)} == {50}
    assert set(found) == set(range(100))
    assert [items for _, items in pool.sent if 50 in items][1:] == [(50,)] * 2


def test_workers_that_never_start_are_an_error() -> None:
    def answer(worker: Scripted, items: Sequence[int]) -> Sequence[tuple[int, str]]:
        raise WorkerExitedError("exit status 3", 3)

    with (
        Scripts(answer, 2, retries=1) as pool,
        pytest.raises(MlgoError, match="exit status 3 before its first item"),
    ):
        list(pool.run(ItemQueue(range(3))))


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
