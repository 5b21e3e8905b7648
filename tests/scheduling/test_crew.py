"""What a crew does about workers that die or are slow, with workers that are scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling import Backlog, Lost
from mlgo_gym.scheduling.crew import Crew, Gone, Member

Answer = Callable[["Scripted", Sequence[int]], Sequence[tuple[int, str]]]


class Scripted(Member[int, str]):
    """A worker that does what a function of its number and its items says."""

    def __init__(self, number: int, room: int, crew: Scripts) -> None:
        super().__init__(room)
        self.number = number
        self.crew = crew
        self.inbox: list[int] | None = []
        self.ended = False

    def send(self, items: Sequence[int]) -> None:
        self.inbox = list(items)
        self.crew.sent.append((self.number, tuple(items)))

    def receive(self) -> Sequence[tuple[int, str]]:
        items, self.inbox = self.inbox, None
        assert items is not None
        return self.crew.answer(self, items)

    def end(self, patience: float) -> None:
        self.ended = True


class Scripts(Crew[int, str]):
    """A crew of such workers; those whose answer is `silent` say nothing."""

    def __init__(self, answer: Answer, jobs: int, room: int = 1, **more: Any) -> None:
        super().__init__(jobs, room, **more)
        self.answer = answer
        self.hired: list[Scripted] = []
        self.sent: list[tuple[int, tuple[int, ...]]] = []
        self.silent: set[tuple[int, int]] = set()

    def hire(self, room: int) -> Scripted:
        self.hired.append(Scripted(len(self.hired), room, self))
        return self.hired[-1]

    def wait(self, members: Sequence[Member[int, str]], seconds: float | None) -> Iterable[Member[int, str]]:
        scripted = [member for member in members if isinstance(member, Scripted)]
        talking = [
            each
            for each in scripted
            if each.inbox is not None and not any((each.number, item) in self.silent for item in each.inbox)
        ]
        assert talking or seconds is not None, "nobody would ever say anything"
        return talking


def square(member: Scripted, items: Sequence[int]) -> Sequence[tuple[int, str]]:
    return [(item, f"{item} by {member.number}") for item in items]


def test_each_item_has_one_result() -> None:
    with Scripts(square, 3) as crew:
        found = dict(crew.run(Backlog(range(10))))
    assert set(found) == set(range(10))
    assert all(member.ended for member in crew.hired)


def dying(deaths: dict[int, int]) -> Answer:
    def answer(member: Scripted, items: Sequence[int]) -> Sequence[tuple[int, str]]:
        for item in items:
            if deaths.get(item, 0):
                deaths[item] -= 1
                raise Gone("signal 9 (SIGKILL)", -9)
        return square(member, items)

    return answer


@pytest.mark.parametrize(("again", "lost"), [(0, {2, 5}), (1, {5}), (2, set())])
def test_items_of_the_dead_are_begun_again_as_often_as_is_wanted(again: int, lost: set[int]) -> None:
    with Scripts(dying({2: 1, 5: 2}), 2, again=again) as crew:
        found = dict(crew.run(Backlog(range(8))))
    assert {item for item, result in found.items() if isinstance(result, Lost)} == lost
    assert set(found) == set(range(8))


def test_of_several_items_at_once_the_deadly_one_alone_is_lost() -> None:
    with Scripts(dying({3: 9}), 1, room=4) as crew:
        found = dict(crew.run(Backlog(range(8))))
    assert {item for item, result in found.items() if isinstance(result, Lost)} == {3}


def test_a_late_item_is_copied_once_nothing_waits_and_who_was_slow_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlgo_gym.scheduling.crew.SLOW_SECONDS", 0.0)
    monkeypatch.setattr("mlgo_gym.scheduling.crew.SLOW_FACTOR", 0.0)
    with Scripts(square, 2, copies=True) as crew:
        crew.silent = {(0, 0)}
        found = dict(crew.run(Backlog(range(5))))
        assert found[0] == "0 by 1"
        assert set(found) == set(range(5))
        assert [each for each in crew.sent if 0 in each[1]] == [(0, (0,)), (1, (0,))]
        assert [member.ended for member in crew.hired] == [True, False]
        # Another takes the place of the slow one in the next round.
        assert len(dict(crew.run(Backlog(range(10, 14))))) == 4
        assert len(crew.hired) == 3


def test_nothing_is_copied_where_copies_are_not_wanted() -> None:
    with Scripts(square, 2) as crew:
        crew.silent = {(0, 0)}
        results = crew.run(Backlog(range(3)))
        assert [item for item, _ in (next(results), next(results))] == [1, 2]
        with pytest.raises(AssertionError, match="nobody would ever say anything"):
            next(results)


def test_where_messages_would_keep_the_driver_busy_each_brings_several_results_but_not_at_the_end() -> None:
    def answer(member: Scripted, items: Sequence[int]) -> Sequence[tuple[int, str]]:
        member.pace = 0.1
        return square(member, items)

    with Scripts(answer, 2, message_seconds=0.25) as crew:
        assert set(dict(crew.run(Backlog(range(100))))) == set(range(100))
    handed = [len(items) for _, items in crew.sent]
    assert max(handed) == 6  # one that there is room for, and five of a tenth of a second
    assert handed[-1] == 1
    assert len(handed) < 40


def test_a_deadly_item_among_many_is_lost_alone() -> None:
    deadly = dying({50: 9})

    def answer(member: Scripted, items: Sequence[int]) -> Sequence[tuple[int, str]]:
        member.pace = 0.1
        return deadly(member, items)

    with Scripts(answer, 2, message_seconds=0.25, again=1) as crew:
        found = dict(crew.run(Backlog(range(100))))
    assert {item for item, result in found.items() if isinstance(result, Lost)} == {50}
    assert set(found) == set(range(100))
    assert [items for _, items in crew.sent if 50 in items][1:] == [(50,)] * 2


@pytest.mark.parametrize("again", [0, 1])
def test_workers_that_never_begin_are_an_error(again: int) -> None:
    def answer(member: Scripted, items: Sequence[int]) -> Sequence[tuple[int, str]]:
        raise Gone("exit status 3", 3)

    with Scripts(answer, 2, again=again) as crew, pytest.raises(MlgoError, match="exit status 3 before its first item"):
        list(crew.run(Backlog(range(3))))
