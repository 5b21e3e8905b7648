"""The decision loop, and other coroutines that wait for compilers; they block, or an event loop runs them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeAlias, TypeVar

from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.waiting import interruptible, uninterrupted
from mlgo_gym.errors import CompilerError

T = TypeVar("T")

_running = threading.BoundedSemaphore(os.cpu_count() or 1)


class BackgroundCall(Generic[T]):
    """A function call in a thread, for an event loop that watches it as a session without decisions.

    It is for functions that start and await programs, such as a linker. They have limits of their own.

    Attributes:
        exited: Whether the function has returned or raised.
    """

    def __init__(self, function: Callable[[], T]) -> None:
        self.exited = False
        self._function = function
        self._read, self._write = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="mlgo-gym-background")
        self._thread.start()

    def _run(self) -> None:
        self._error: BaseException | None = None
        try:
            with _running:
                self._result = self._function()
        except BaseException as error:  # noqa: BLE001 - raised again by `result()`
            self._error = error
        os.write(self._write, b"1")

    def descriptors(self) -> list[int]:
        """Return the descriptor to watch; `poll()` when it is readable."""
        return [self._read]

    def poll(self) -> None:
        """Set `exited` if the function has ended."""
        self.exited = not self._thread.is_alive() or bool(os.read(self._read, 1))

    def grace(self, timeout: float) -> float:
        """Return the additional time for the function, in seconds."""
        return timeout

    def timeout_error(self, timeout: float) -> CompilerError:
        """Return an error; never called, as there always is more time."""
        raise NotImplementedError(timeout)

    def result(self) -> T:
        """Return the result of the function, or raise its exception."""
        if self._error is not None:
            raise self._error
        return self._result

    def close(self) -> None:
        """Wait for the function, which cannot be ended earlier, and close the descriptors."""
        interruptible(self._thread.join)
        os.close(self._read)
        os.close(self._write)


CompilerCoroutine: TypeAlias = Generator[Session | BackgroundCall[Any] | None, Decision | None, T]
"""A generator that yields the session it waits for, and receives its next decision, or None when clang has exited.

Errors of `Session.wait()` are raised at the yield. One for an event loop may yield a `BackgroundCall`, or None: it
waits for an answer.
"""


def in_background(function: Callable[[], T]) -> CompilerCoroutine[T]:
    """Return the result of a function as a coroutine for an event loop, which serves other compilers meanwhile."""
    call = BackgroundCall(function)
    try:
        yield call
        return call.result()
    finally:
        call.close()


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
            assert isinstance(session, Session), "only an event loop runs other coroutines"
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
