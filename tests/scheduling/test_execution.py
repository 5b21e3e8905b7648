"""Workers in this process and in worker processes: one result per item; only a deadly item is lost."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling import Execution, ItemQueue, SequentialRunner, WorkerFailure

DEADLY = 3


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


def test_one_job_is_this_process() -> None:
    with Execution().workers(start) as workers:
        assert dict(workers.run(ItemQueue([1, 2]))) == {1: (1, os.getpid()), 2: (4, os.getpid())}
        assert list(workers.run(ItemQueue([]))) == []


def test_only_an_item_that_kills_its_worker_is_lost() -> None:
    with Execution(2).workers(start, 3) as workers:
        found = dict(workers.run(ItemQueue(range(8))))
        assert found.pop(DEADLY) == WorkerFailure("signal 9 (SIGKILL)", -9)
        squares = {number: result[0] for number, result in found.items() if not isinstance(result, WorkerFailure)}
    assert squares == {number: number**2 for number in range(8) if number != DEADLY}


def test_processes_stay_for_the_next_queue() -> None:
    seen: set[int] = set()
    with Execution(2).workers(start) as workers:
        for items in ([1, 2], [4, 5], [6, 7]):
            seen.update(
                result[1] for _, result in workers.run(ItemQueue(items)) if not isinstance(result, WorkerFailure)
            )
    assert len(seen) <= 2
    assert os.getpid() not in seen


@pytest.mark.parametrize("jobs", [1, 2])
def test_run_may_be_called_again_after_an_unfinished_iteration(jobs: int) -> None:
    with Execution(jobs).workers(start) as running:
        with closing(running.run(ItemQueue([1, 2, 4]))) as results:
            next(results)
        assert {number for number, _ in running.run(ItemQueue([5, 6]))} == {5, 6}


def test_a_runner_that_cannot_start_is_an_error() -> None:
    with Execution(2).workers(refuse) as workers, pytest.raises(MlgoError, match="no capacity for 1"):
        list(workers.run(ItemQueue([1, 2])))


def test_numbers_below_one_are_refused() -> None:
    with pytest.raises(MlgoError, match="expected jobs ≥ 1, got 0"):
        Execution(0)
    with pytest.raises(MlgoError, match="expected capacity ≥ 1, got 0"):
        Execution().workers(start, 0)
