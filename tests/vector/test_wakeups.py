"""Waiting for many sessions."""

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


def next_decision(wakeups: Wakeups, number: int, session: Session) -> None:
    """Wait for the next decision of a session."""
    while session.poll() is None:
        assert wakeups.wait(LONG, {number}) == {number}


def is_silent(wakeups: Wakeups, numbers: set[int]) -> bool:
    """Return whether no session wakes for a short time, once those of other numbers are muted."""
    for _ in range(20):
        start = time.monotonic()
        if wakeups.wait(BRIEF, numbers):
            return False
        if time.monotonic() - start >= BRIEF:
            return True
    return False


def test_a_silent_clang_does_not_wake(wakeups: Wakeups) -> None:
    with Session(fake_clang("silent"), [INLINING]) as session:
        wakeups.watch(0, session)
        assert is_silent(wakeups, {0})


def test_each_session_wakes_with_its_own_number(wakeups: Wakeups) -> None:
    with Session(fake_clang("ask:1"), [INLINING]) as asking, Session(fake_clang("silent"), [INLINING]) as silent:
        wakeups.watch(5, asking)
        wakeups.watch(6, silent)
        next_decision(wakeups, 5, asking)
        asking.advise(bytes(8))
        while not asking.exited:
            assert wakeups.wait(LONG, {5, 6}) == {5}
            asking.poll()


def test_output_of_a_muted_session_wakes_only_after_it_is_watched_again(wakeups: Wakeups) -> None:
    with Session(fake_clang("flood"), [INLINING]) as session:
        wakeups.watch(0, session)
        next_decision(wakeups, 0, session)
        assert is_silent(wakeups, set())
        wakeups.watch(0, session)
        assert wakeups.wait(LONG, {0}) == {0}


def test_a_session_may_reuse_the_descriptors_of_the_last(wakeups: Wakeups) -> None:
    for _ in range(3):
        with Session(fake_clang("flood"), [INLINING]) as session:
            wakeups.watch(0, session)
            next_decision(wakeups, 0, session)
            assert is_silent(wakeups, set())
