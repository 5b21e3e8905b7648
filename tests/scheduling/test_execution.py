"""Workers in this process and in worker processes: one result per item; only a deadly item is lost."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling import Execution, ItemQueue, SequentialRunner, WorkerFailure, Workers

DEADLY = 3

Squares = Workers[int, tuple[int, int]]


def square(number: int) -> tuple[int, int]:
    """Return the square and the process that computed it."""
    if number == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2, os.getpid()


def start(capacity: int) -> SequentialRunner[int, tuple[int, int]]:
    del capacity
    return SequentialRunner(square)


def refuse(capacity: int) -> SequentialRunner[int, int]:
    raise MlgoError(f"no capacity for {capacity}")


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


def test_one_job_is_this_process() -> None:
    with Execution().workers(start) as workers:
        assert check_squares(workers, range(3), {}) == {os.getpid()}
        assert check_squares(workers, range(0), {}) == set()
        leave_unfinished(workers)
        assert check_squares(workers, range(8, 10), {}) == {os.getpid()}


def test_processes_stay_for_the_next_queue_and_only_an_item_that_kills_its_worker_is_lost() -> None:
    with Execution(2).workers(start, 3) as workers:
        check_squares(workers, range(8), {DEADLY: WorkerFailure("signal 9 (SIGKILL)", -9)})
        processes = check_squares(workers, range(10, 12), {}) | check_squares(workers, range(12, 14), {})
        assert len(processes) <= 2
        assert os.getpid() not in processes
        leave_unfinished(workers)
        check_squares(workers, range(8, 10), {})


def test_a_runner_that_cannot_start_is_an_error() -> None:
    with Execution(2).workers(refuse) as workers, pytest.raises(MlgoError, match="no capacity for 1"):
        list(workers.run(ItemQueue([1, 2])))


def test_numbers_below_one_are_refused() -> None:
    with pytest.raises(MlgoError, match="expected jobs ≥ 1, got 0"):
        Execution(0)
    with pytest.raises(MlgoError, match="expected capacity ≥ 1, got 0"):
        Execution().workers(start, 0)
