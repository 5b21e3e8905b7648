"""Work that waits for compilers: written once, as a generator, and done by waiting or by an event loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Generic, TypeAlias, TypeVar

from mlgo_gym.errors import CompilerError
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.session import Session

T = TypeVar("T")

Work: TypeAlias = Generator[Session, Decision | None, T]
"""Yields the session that it waits for, and is sent the session's next decision, or None when clang has ended.

What `Session.wait()` raises is raised where the work waits.
"""


def complete(work: Work[T], timeout: float) -> T:
    """Do work to its end, waiting for its compilers, and return its result.

    Args:
        work: what to do.
        timeout: the longest wait for each sign of life of a clang, in seconds.

    Raises:
        CompilerError: a compile failed or was silent for too long, and the work cannot go on without it.
    """
    try:
        session = next(work)
        while True:
            session = _wait(work, session, timeout)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        work.close()


def _wait(work: Work[T], session: Session, timeout: float) -> Session:
    try:
        decision = session.wait(timeout)
    except CompilerError as error:
        return work.throw(error)
    return work.send(decision)


class WorkUnderWay(Generic[T]):
    """Work that an event loop carries on whenever a compiler has something to say.

    Args:
        work: what to do; it begins at once.
        timeout: for how long a clang may give no sign of life, in seconds.

    Attributes:
        session: whose descriptors tell when to `poll()`; None when the work is done.
        deadline: when it will have been silent for too long, on the monotonic clock.

    Raises:
        MlgoError: what the work raises before it first waits.
    """

    def __init__(self, work: Work[T], timeout: float) -> None:
        self._work = work
        self._timeout = timeout
        self._result: list[T] = []
        self.session: Session | None = None
        self.deadline = 0.0
        self._go_on(lambda: next(work))

    @property
    def result(self) -> T:
        """What the work has returned; there once it is done."""
        (result,) = self._result
        return result

    def postpone(self) -> None:
        """Count the silence from now: nobody has listened until now."""
        self.deadline = time.monotonic() + self._timeout

    def poll(self) -> bool:
        """Go on without waiting; return whether the work is done.

        Raises:
            MlgoError: what the work raises.
        """
        while (session := self.session) is not None:
            try:
                decision = session.poll()
            except CompilerError as error:
                self._throw(error)
                continue
            if decision is None and not session.exited:
                return False
            self._send(decision)
        return True

    def time_out(self) -> None:
        """End the clang that was silent for too long; the work goes on without it if it can.

        Where the clang could not compute for want of a processor the deadline is moved on instead.

        Raises:
            MlgoError: what the work raises.
        """
        assert self.session is not None
        if grace := self.session.grace(self._timeout):
            self.deadline = time.monotonic() + grace
            return
        self._throw(self.session.timed_out(self._timeout))

    def _send(self, decision: Decision | None) -> None:
        self._go_on(lambda: self._work.send(decision))

    def _throw(self, error: CompilerError) -> None:
        self._go_on(lambda: self._work.throw(error))

    def _go_on(self, resume: Callable[[], Session]) -> None:
        self.session = None
        try:
            self.session = resume()
        except StopIteration as end:
            self._result.append(end.value)
        self.postpone()

    def close(self) -> None:
        """Give the work up and end its clang. Idempotent."""
        self.session = None
        self._work.close()
