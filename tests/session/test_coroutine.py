"""Coroutines that wait for compilers, run by blocking and by an event loop."""

from __future__ import annotations

import select
from collections.abc import Callable

import pytest

from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.advisors import INLINING
from mlgo_gym.session.coroutine import CompilerCoroutine, CoroutineDriver, run_blocking
from mlgo_gym.session.session import Session
from mlgo_gym.testing import fake_clang

pytestmark = pytest.mark.usefixtures("nothing_is_left")

ANSWER = b"answered"


def loop(coroutine: CompilerCoroutine[bytes], timeout: float) -> bytes:
    """Run a coroutine as an event loop does; each decision extends the deadline."""
    driver = CoroutineDriver(coroutine, timeout)
    deadline = 0.0
    while not driver.poll():
        assert driver.session is not None
        assert driver.deadline >= deadline
        deadline = driver.deadline
        if not select.select(driver.session.descriptors(), [], [], timeout)[0]:
            driver.time_out()
    assert driver.deadline > deadline
    return driver.result


def answer_all(behaviour: str) -> CompilerCoroutine[bytes]:
    with Session(fake_clang(behaviour), [INLINING]) as session:
        while (yield session) is not None:
            session.advise(ANSWER)
        return session.finish(0.0).object_bytes


def second_try(behaviour: str) -> CompilerCoroutine[bytes]:
    try:
        return (yield from answer_all(behaviour))
    except CompilerError as error:
        return error.kind.encode() + (yield from answer_all("ask:3"))


@pytest.mark.parametrize("run", [run_blocking, loop])
def test_a_coroutine_receives_every_decision_and_may_continue_after_a_failure(
    run: Callable[[CompilerCoroutine[bytes], float], bytes],
) -> None:
    failures = [("exit@half", 30.0, b"exit"), ("garbage", 30.0, b"protocol"), ("stall@start", 1.0, b"timeout")]
    for behaviour, timeout, kind in failures:
        assert run(second_try(behaviour), timeout) == kind + ANSWER * 3
    with pytest.raises(CompilerError, match="fatal error: lost at the question"):
        run(answer_all("exit@question"), 30.0)


def test_a_coroutine_that_is_closed_kills_its_clang_and_one_that_waits_has_no_result() -> None:
    driver = CoroutineDriver(answer_all("stall@start"), 30.0)
    session = driver.session
    assert session is not None
    with pytest.raises(MlgoError, match="expected a coroutine that has finished"):
        _ = driver.result
    driver.close()
    driver.close()
    assert session.exited
    assert driver.session is None
    with pytest.raises(MlgoError, match="expected a coroutine that waits"):
        driver.time_out()
