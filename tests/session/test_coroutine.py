"""Coroutines that wait for compilers, run by blocking and by an event loop."""

from __future__ import annotations

import select
from collections.abc import Callable

import pytest

from mlgo_gym.errors import CompilerError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.coroutine import CompilerCoroutine, CoroutineDriver, run_blocking
from mlgo_gym.session.session import Session
from tests.fakes import fake_clang

pytestmark = pytest.mark.usefixtures("nothing_is_left")

LONG = 30.0
ANSWER = b"answered"


def loop(coroutine: CompilerCoroutine[bytes], timeout: float) -> bytes:
    """Run a coroutine as an event loop does."""
    driver = CoroutineDriver(coroutine, timeout)
    while not driver.poll():
        assert driver.session is not None
        if not select.select(driver.session.descriptors(), [], [], timeout)[0]:
            driver.time_out()
    return driver.result


Doing = Callable[[CompilerCoroutine[bytes], float], bytes]
both = pytest.mark.parametrize("do", [run_blocking, loop])


def answer_all(behaviour: str) -> CompilerCoroutine[bytes]:
    with Session(fake_clang(behaviour), [INLINING]) as session:
        while (yield session) is not None:
            session.advise(ANSWER)
        return session.finish(0.0).object_bytes


def second_try(behaviour: str) -> CompilerCoroutine[bytes]:
    try:
        return (yield from answer_all(behaviour))
    except CompilerError as error:
        return error.kind.encode() + (yield from answer_all("ask:1"))


@both
def test_a_coroutine_receives_every_decision_and_then_none(do: Doing) -> None:
    assert do(answer_all("ask:3"), LONG) == ANSWER * 3


@both
def test_a_coroutine_without_a_wait_finishes_at_once(do: Doing) -> None:
    def nothing() -> CompilerCoroutine[bytes]:
        yield from ()
        return b"done"

    assert do(nothing(), LONG) == b"done"


@both
@pytest.mark.parametrize(
    ("behaviour", "kind", "timeout"),
    [("half-header", "exit", LONG), ("garbage", "protocol", LONG), ("silent", "timeout", 0.3)],
)
def test_failures_are_raised_at_the_yield(do: Doing, behaviour: str, kind: str, timeout: float) -> None:
    with pytest.raises(CompilerError) as caught:
        do(answer_all(behaviour), timeout)
    assert caught.value.kind == kind


@both
@pytest.mark.parametrize("behaviour", ["garbage", "silent"])
def test_a_coroutine_may_continue_after_a_failure(do: Doing, behaviour: str) -> None:
    kind = {"garbage": b"protocol", "silent": b"timeout"}[behaviour]
    assert do(second_try(behaviour), 1.0) == kind + ANSWER


def test_a_decision_extends_the_deadline() -> None:
    driver = CoroutineDriver(answer_all("ask:4"), LONG)
    first = driver.deadline
    while not driver.poll():
        assert driver.deadline >= first
        assert driver.session is not None
        assert select.select(driver.session.descriptors(), [], [], LONG)[0]
    assert driver.deadline > first


def test_closing_a_coroutine_kills_its_clang() -> None:
    driver = CoroutineDriver(answer_all("silent"), LONG)
    session = driver.session
    assert session is not None
    driver.close()
    driver.close()
    assert session.exited
    assert driver.session is None
