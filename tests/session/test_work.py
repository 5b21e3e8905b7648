"""Work that waits for compilers, done by waiting and by an event loop."""

from __future__ import annotations

import select
from collections.abc import Callable

import pytest

from mlgo_gym.errors import CompilerError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.session import Session
from mlgo_gym.session.work import Work, WorkUnderWay, complete
from tests.fakes import fake_clang

pytestmark = pytest.mark.usefixtures("nothing_is_left")

LONG = 30.0
ANSWER = b"answered"


def loop(work: Work[bytes], timeout: float) -> bytes:
    """Do work as an event loop does."""
    under_way = WorkUnderWay(work, timeout)
    while not under_way.poll():
        assert under_way.session is not None
        if not select.select(under_way.session.descriptors(), [], [], timeout)[0]:
            under_way.time_out()
    return under_way.result


Doing = Callable[[Work[bytes], float], bytes]
both = pytest.mark.parametrize("do", [complete, loop])


def answer_all(behaviour: str) -> Work[bytes]:
    with Session(fake_clang(behaviour), [INLINING]) as session:
        while (yield session) is not None:
            session.advise(ANSWER)
        return session.finish(0.0).object_bytes


def second_try(behaviour: str) -> Work[bytes]:
    try:
        return (yield from answer_all(behaviour))
    except CompilerError as error:
        return error.kind.encode() + (yield from answer_all("ask:1"))


@both
def test_it_is_sent_every_decision_and_then_the_end(do: Doing) -> None:
    assert do(answer_all("ask:3"), LONG) == ANSWER * 3


@both
def test_work_that_waits_for_nothing_is_done_at_once(do: Doing) -> None:
    def nothing() -> Work[bytes]:
        yield from ()
        return b"done"

    assert do(nothing(), LONG) == b"done"


@both
@pytest.mark.parametrize(
    ("behaviour", "kind", "timeout"),
    [("half-header", "exit", LONG), ("garbage", "protocol", LONG), ("silent", "timeout", 0.3)],
)
def test_failures_are_raised_where_the_work_waits(do: Doing, behaviour: str, kind: str, timeout: float) -> None:
    with pytest.raises(CompilerError) as caught:
        do(answer_all(behaviour), timeout)
    assert caught.value.kind == kind


@both
@pytest.mark.parametrize("behaviour", ["garbage", "silent"])
def test_work_can_go_on_after_a_failure(do: Doing, behaviour: str) -> None:
    kind = {"garbage": b"protocol", "silent": b"timeout"}[behaviour]
    assert do(second_try(behaviour), 3.0) == kind + ANSWER


def test_a_sign_of_life_puts_the_deadline_off() -> None:
    under_way = WorkUnderWay(answer_all("ask:4"), LONG)
    first = under_way.deadline
    while not under_way.poll():
        assert under_way.deadline >= first
        assert under_way.session is not None
        assert select.select(under_way.session.descriptors(), [], [], LONG)[0]
    assert under_way.deadline > first


def test_work_that_is_given_up_ends_its_clang() -> None:
    under_way = WorkUnderWay(answer_all("silent"), LONG)
    session = under_way.session
    assert session is not None
    under_way.close()
    under_way.close()
    assert session.exited
    assert under_way.session is None
