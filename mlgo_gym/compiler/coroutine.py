"""The decision loop, and other coroutines that wait for compilers; they block, or an event loop runs them."""

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

from mlgo_gym.compiler.connection import CompileResult
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.waiting import uninterrupted
from mlgo_gym.errors import CompilerError

T = TypeVar("T")

CompilerCoroutine: TypeAlias = Generator[Session | Callable[[], Any], Any, T]
"""A generator that yields the session it waits for, and receives its next decision, or None when clang has exited.

It may also yield a function that awaits programs with limits of their own, such as a linker, and receives its result.
A `CompilerError` of either is raised at the yield.
"""


def drive_coroutine(session: Session, choose: Callable[[Decision], bytes]) -> CompilerCoroutine[CompileResult]:
    """Return `drive()` as a coroutine for an event loop, or for `yield from` in another coroutine."""
    while (decision := (yield session)) is not None:
        session.advise(choose(decision))
    return session.finish(0.0)


def drive(session: Session, choose: Callable[[Decision], bytes], timeout: float) -> CompileResult:
    """Answer every decision of a session, which stays open, until its clang exits, and return the result.

    `choose` returns the bytes of an advice tensor for a decision; it may raise. Raises `CompilerError` if clang failed,
    or was silent for `timeout` seconds.
    """
    return run(drive_coroutine(session, choose), timeout)


def run(coroutine: CompilerCoroutine[T], timeout: float) -> T:
    """Run a coroutine as `run_blocking()` does; handlers of signals may raise anywhere in it, and a call costs less."""
    try:
        awaited = next(coroutine)
        while True:
            try:
                value = awaited.wait(timeout) if isinstance(awaited, Session) else awaited()
            except CompilerError as error:  # noqa: PERF203 - the coroutine handles it, and continues
                awaited = coroutine.throw(error)
            else:
                awaited = coroutine.send(value)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        coroutine.close()


@uninterrupted()
def run_blocking(coroutine: CompilerCoroutine[T], timeout: float) -> T:
    """Run a coroutine to its end, blocking, and return its result; a clang may be silent for `timeout` seconds.

    Raises `CompilerError` if a compile failed or timed out, and the coroutine does not handle it.
    """
    return run(coroutine, timeout)
