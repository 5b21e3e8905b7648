"""One epoll over the descriptors of many sessions: which of them can continue."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Container

from mlgo_gym.compiler.interrupts import interruptible
from mlgo_gym.compiler.session import Session


class Wakeups:
    """Watches one session per number.

    A session whose decision is pending may become readable: it writes to standard error, or is killed. It would wake
    every wait for the others, so its descriptor is muted until the session is watched again.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._numbers: dict[int, int] = {}
        self._sessions: dict[int, Session] = {}
        self._muted: dict[int, list[int]] = {}

    def watch(self, number: int, session: Session) -> None:
        """Watch a session instead of the number's last one, or unmute the same one."""
        if self._sessions.get(number) is session:
            if number in self._muted:
                for descriptor in self._muted.pop(number):
                    self._epoll.register(descriptor, select.EPOLLIN)
            return
        self._muted.pop(number, None)
        self._sessions[number] = session
        # Closing the last session's descriptors removed them from the epoll set; the kernel may reuse their numbers.
        for descriptor in session.descriptors():
            self._epoll.register(descriptor, select.EPOLLIN)
            self._numbers[descriptor] = number

    def wait(self, timeout: float, numbers: Container[int]) -> set[int]:
        """Wait until a session is readable, and return the numbers of the readable sessions.

        Args:
            timeout: Maximum wait in seconds.
            numbers: Numbers of the sessions to wait for; others are muted.
        """
        readable = set()
        for descriptor, _ in interruptible(self._epoll.poll, max(timeout, 0.0)):
            number = self._numbers[descriptor]
            if number in numbers:
                readable.add(number)
            else:
                # A closed descriptor may stay readable for a moment: a clang that is starting closes its copy on exec,
                # after posix_spawn() has returned.
                with contextlib.suppress(OSError):
                    self._epoll.unregister(descriptor)
                    self._muted.setdefault(number, []).append(descriptor)
        return readable

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        self._epoll.close()
