"""Workers, here and in processes: every item has one result, and one that kills its worker is lost alone."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling import Backlog, EachAlone, Lost, workers

DEADLY = 3


def square(number: int) -> tuple[int, int]:
    """Return the square, and who computed it."""
    if number == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2, os.getpid()


def start(room: int) -> EachAlone[int, tuple[int, int]]:
    del room
    return EachAlone(square)


def refuse(room: int) -> EachAlone[int, int]:
    raise MlgoError(f"no room for {room}")


def test_one_job_is_this_process() -> None:
    with workers(start, 1) as here:
        assert dict(here.run(Backlog([1, 2]))) == {1: (1, os.getpid()), 2: (4, os.getpid())}
        assert list(here.run(Backlog([]))) == []


def test_an_item_that_kills_its_worker_is_lost_and_no_other_is() -> None:
    with workers(start, 2, room=3) as processes:
        found = dict(processes.run(Backlog(range(8))))
        assert found.pop(DEADLY) == Lost("signal 9 (SIGKILL)", -9)
        squares = {number: result[0] for number, result in found.items() if not isinstance(result, Lost)}
    assert squares == {number: number**2 for number in range(8) if number != DEADLY}


def test_processes_stay_for_the_next_queue() -> None:
    seen: set[int] = set()
    with workers(start, 2) as processes:
        for items in ([1, 2], [4, 5], [6, 7]):
            seen.update(result[1] for _, result in processes.run(Backlog(items)) if not isinstance(result, Lost))
    assert len(seen) <= 2
    assert os.getpid() not in seen


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_iteration_that_is_left_can_be_followed_by_another(jobs: int) -> None:
    with workers(start, jobs) as running:
        with closing(running.run(Backlog([1, 2, 4]))) as results:
            next(results)
        assert {number for number, _ in running.run(Backlog([5, 6]))} == {5, 6}


def test_a_runner_that_cannot_start_is_an_error_here() -> None:
    with workers(refuse, 2) as processes, pytest.raises(MlgoError, match="no room for 1"):
        list(processes.run(Backlog([1, 2])))


def test_numbers_below_one_are_refused() -> None:
    with pytest.raises(MlgoError, match="jobs was to be at least 1, found 0"):
        workers(start, 0)
    with pytest.raises(MlgoError, match="room was to be at least 1, found 0"):
        workers(start, 1, 0)
