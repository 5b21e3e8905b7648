"""Which of many compilers have something to say: one epoll over the descriptors of their sessions."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Container

from mlgo_gym.session.session import Session


class Wakeups:
    """Watches one session for each of several numbers.

    A session that speaks while nobody wants to hear it (it writes to standard error, or is killed, while its decision
    waits) would wake every wait for the others: its descriptor is left out until it is watched again.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._numbers: dict[int, int] = {}
        self._sessions: dict[int, Session] = {}
        self._muted: dict[int, list[int]] = {}

    def watch(self, number: int, session: Session) -> None:
        """Watch a session in the place of the number's last, or watch the same one again in full."""
        if self._sessions.get(number) is session:
            if number in self._muted:
                for descriptor in self._muted.pop(number):
                    self._epoll.register(descriptor, select.EPOLLIN)
            return
        self._muted.pop(number, None)
        self._sessions[number] = session
        # The descriptors of the last one left the set when they were closed, and their numbers may be used again.
        for descriptor in session.descriptors():
            self._epoll.register(descriptor, select.EPOLLIN)
            self._numbers[descriptor] = number

    def wait(self, timeout: float, wanted: Container[int]) -> set[int]:
        """Wait until a session has something to say, and return the numbers of those that have.

        Args:
            timeout: the longest wait, in seconds.
            wanted: whose sessions are of interest.
        """
        speaking = set()
        for descriptor, _ in self._epoll.poll(max(timeout, 0.0)):
            number = self._numbers[descriptor]
            if number in wanted:
                speaking.add(number)
            else:
                # A closed descriptor can still be heard for a moment: of a clang that is being started, which lets go
                # of what is closed on exec only after posix_spawn() has returned.
                with contextlib.suppress(OSError):
                    self._epoll.unregister(descriptor)
                    self._muted.setdefault(number, []).append(descriptor)
        return speaking

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        self._epoll.close()
