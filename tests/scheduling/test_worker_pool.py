"""A worker pool with workers that exit or are slow; the workers are scripted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling import ItemQueue, WorkerFailure
from mlgo_gym.scheduling.worker_pool import PoolWorker, WorkerExitedError, WorkerPool

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


def test_each_item_has_one_result() -> None:
    with Scripts(square, 3) as pool:
        found = dict(pool.run(ItemQueue(range(10))))
    assert set(found) == set(range(10))
    assert all(worker.stopped for worker in pool.started)


def exiting(exits: dict[int, int]) -> Answer:
    def answer(worker: Scripted, items: Sequence[int]) -> Sequence[tuple[int, str]]:
        for item in items:
            if exits.get(item, 0):
                exits[item] -= 1
                raise WorkerExitedError("signal 9 (SIGKILL)", -9)
        return square(worker, items)

    return answer


@pytest.mark.parametrize(("retries", "lost"), [(0, {2, 5}), (1, {5}), (2, set())])
def test_an_item_whose_worker_exited_is_retried(retries: int, lost: set[int]) -> None:
    with Scripts(exiting({2: 1, 5: 2}), 2, retries=retries) as pool:
        found = dict(pool.run(ItemQueue(range(8))))
    assert {item for item, result in found.items() if isinstance(result, WorkerFailure)} == lost
    assert set(found) == set(range(8))


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


def test_nothing_is_copied_without_copies() -> None:
    with Scripts(square, 2) as pool:
        pool.silent = {(0, 0)}
        results = pool.run(ItemQueue(range(3)))
        assert [item for item, _ in (next(results), next(results))] == [1, 2]
        with pytest.raises(AssertionError, match="no worker would ever send a message"):
            next(results)


def test_costly_messages_carry_several_results_except_at_the_end() -> None:
    def answer(worker: Scripted, items: Sequence[int]) -> Sequence[tuple[int, str]]:
        worker.pace = 0.1
        return square(worker, items)

    with Scripts(answer, 2, message_seconds=0.25) as pool:
        assert set(dict(pool.run(ItemQueue(range(100))))) == set(range(100))
    assigned = [len(items) for _, items in pool.sent]
    assert max(assigned) == 6  # one for the capacity, and five of 0.1 s in the interval of 0.5 s
    assert assigned[-1] == 1
    assert len(assigned) < 40


def test_only_the_deadly_item_of_many_is_lost() -> None:
    deadly_item = exiting({50: 9})

    def answer(worker: Scripted, items: Sequence[int]) -> Sequence[tuple[int, str]]:
        worker.pace = 0.1
        return deadly_item(worker, items)

    with Scripts(answer, 2, message_seconds=0.25, retries=1) as pool:
        found = dict(pool.run(ItemQueue(range(100))))
    assert {item for item, result in found.items() if isinstance(result, WorkerFailure)} == {50}
    assert set(found) == set(range(100))
    assert [items for _, items in pool.sent if 50 in items][1:] == [(50,)] * 2


@pytest.mark.parametrize("retries", [0, 1])
def test_workers_that_never_start_are_an_error(retries: int) -> None:
    def answer(worker: Scripted, items: Sequence[int]) -> Sequence[tuple[int, str]]:
        raise WorkerExitedError("exit status 3", 3)

    with (
        Scripts(answer, 2, retries=retries) as pool,
        pytest.raises(MlgoError, match="exit status 3 before its first item"),
    ):
        list(pool.run(ItemQueue(range(3))))
