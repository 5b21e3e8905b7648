"""The decision loop, and other coroutines that wait for compilers; they block, or an event loop runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeAlias, TypeVar

from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.interrupts import uninterrupted
from mlgo_gym.compiler.session import Session
from mlgo_gym.errors import CompilerError, MlgoError

T = TypeVar("T")

CompilerCoroutine: TypeAlias = Generator[Session | None, Decision | None, T]
"""A generator that yields the session it waits for, and receives its next decision, or None when clang has exited.

Errors of `Session.wait()` are raised at the yield. One for a `CoroutineDriver` may yield None: it waits for `resume()`.
"""


def drive_coroutine(session: Session, choose: Callable[[Decision], bytes]) -> CompilerCoroutine[CompileResult]:
    """Return `drive()` as a coroutine for an event loop, or for `yield from` in another coroutine."""
    while (decision := (yield session)) is not None:
        session.advise(choose(decision))
    return session.finish(0.0)


def drive(session: Session, choose: Callable[[Decision], bytes], timeout: float) -> CompileResult:
    """Answer every decision of a session until its clang exits, and return the result.

    Args:
        session: The session; it stays open.
        choose: Returns the bytes of an advice tensor for a decision; it may raise.
        timeout: Maximum silence of clang, in seconds.

    Raises:
        CompilerError: clang failed, or was silent for too long.
    """
    return run(drive_coroutine(session, choose), timeout)


def run(coroutine: CompilerCoroutine[T], timeout: float) -> T:
    """Run a coroutine as `run_blocking()` does; handlers of signals may raise anywhere in it, and a call costs less."""
    try:
        session = next(coroutine)
        while True:
            assert session is not None, "only a driver resumes a coroutine"
            try:
                decision = session.wait(timeout)
            except CompilerError as error:
                session = coroutine.throw(error)
            else:
                session = coroutine.send(decision)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        coroutine.close()


@uninterrupted()
def run_blocking(coroutine: CompilerCoroutine[T], timeout: float) -> T:
    """Run a coroutine to its end, blocking, and return its result; a clang may be silent for `timeout` seconds.

    Raises:
        CompilerError: A compile failed or timed out, and the coroutine does not handle it.
    """
    return run(coroutine, timeout)


class CoroutineDriver(Generic[T]):
    """Runs a coroutine for an event loop; it starts at once, and its errors are raised here.

    Attributes:
        session: The session to watch; None when the coroutine has finished, or waits for `resume()`.
        deadline: Time of the timeout of a clang that is silent, on the monotonic clock.
    """

    def __init__(self, coroutine: CompilerCoroutine[T], timeout: float) -> None:
        self._coroutine = coroutine
        self._send = coroutine.send
        self._timeout = timeout
        self._result: list[T] = []
        self.session: Session | None = None
        self.deadline = 0.0
        self._resume(self._send, None)

    @property
    def result(self) -> T:
        """Result of a finished coroutine; `MlgoError` for another one."""
        if not self._result:
            raise MlgoError("expected a coroutine that has finished, got one that waits or failed; poll() it")
        return self._result[0]

    def resume(self) -> None:
        """Continue a coroutine that has yielded None."""
        self._resume(self._send, None)

    def restart_deadline(self) -> None:
        """Measure the silence from now."""
        self.deadline = time.monotonic() + self._timeout

    def poll(self) -> bool:
        """Continue without waiting; return whether the coroutine has finished, or waits for `resume()`."""
        while (session := self.session) is not None:
            try:
                decision = session.poll()
            except CompilerError as error:
                self._resume(self._coroutine.throw, error)
                continue
            if decision is None and not session.exited:
                return False
            self._resume(self._send, decision)
        return True

    def time_out(self) -> None:
        """Kill a clang that was silent for too long; extend the deadline instead if it had no CPU."""
        if self.session is None:
            raise MlgoError("expected a coroutine that waits for a clang, got one that does not; poll() tells")
        if grace := self.session.grace(self._timeout):
            self.deadline = time.monotonic() + grace
            return
        self._resume(self._coroutine.throw, self.session.timeout_error(self._timeout))

    def _resume(self, step: Callable[[Any], Session | None], value: Decision | CompilerError | None) -> None:
        self.session = None
        try:
            self.session = step(value)
        except StopIteration as end:
            self._result.append(end.value)
        else:
            self.deadline = time.monotonic() + self._timeout

    def close(self) -> None:
        """Cancel the coroutine, and kill its clang. Idempotent."""
        self.session = None
        self._coroutine.close()
