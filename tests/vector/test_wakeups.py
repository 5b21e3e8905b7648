"""Which of many compilers have something to say."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.session import Session
from mlgo_gym.vector.wakeups import Wakeups
from tests.fakes import fake_clang

pytestmark = pytest.mark.usefixtures("nothing_is_left")

LONG = 30.0
BRIEF = 0.05


@pytest.fixture
def wakeups() -> Iterator[Wakeups]:
    made = Wakeups()
    yield made
    made.close()
    made.close()


def next_question(wakeups: Wakeups, number: int, session: Session) -> None:
    """Wait until a session has asked, by its wakeups alone."""
    while session.poll() is None:
        assert wakeups.wait(LONG, {number}) == {number}


def silence(wakeups: Wakeups, wanted: set[int]) -> bool:
    """Return whether nothing is heard for a brief time, once all that is unwanted has been heard."""
    for _ in range(20):
        start = time.monotonic()
        if wakeups.wait(BRIEF, wanted):
            return False
        if time.monotonic() - start >= BRIEF:
            return True
    return False


def test_nothing_is_heard_of_a_clang_that_is_silent(wakeups: Wakeups) -> None:
    with Session(fake_clang("silent"), [INLINING]) as session:
        wakeups.watch(0, session)
        assert silence(wakeups, {0})


def test_each_session_wakes_with_its_own_number(wakeups: Wakeups) -> None:
    with Session(fake_clang("ask:1"), [INLINING]) as asking, Session(fake_clang("silent"), [INLINING]) as silent:
        wakeups.watch(5, asking)
        wakeups.watch(6, silent)
        next_question(wakeups, 5, asking)
        asking.advise(bytes(8))
        while not asking.exited:
            assert wakeups.wait(LONG, {5, 6}) == {5}
            asking.poll()


def test_what_is_said_to_nobody_wakes_nobody_until_somebody_listens(wakeups: Wakeups) -> None:
    with Session(fake_clang("flood"), [INLINING]) as session:
        wakeups.watch(0, session)
        next_question(wakeups, 0, session)
        assert silence(wakeups, set())
        wakeups.watch(0, session)
        assert wakeups.wait(LONG, {0}) == {0}


def test_a_session_takes_the_place_of_the_last_whose_descriptors_it_may_have(wakeups: Wakeups) -> None:
    for _ in range(3):
        with Session(fake_clang("flood"), [INLINING]) as session:
            wakeups.watch(0, session)
            next_question(wakeups, 0, session)
            assert silence(wakeups, set())
