"""What a clang says on standard error: the end of it, and all of it from when a sign is listened for."""

from __future__ import annotations

import copy

KEPT_BYTES = 64 * 1024
"""How much of the end is kept."""

_MOST_BYTES = 4 * KEPT_BYTES
"""From how much on what is not the end is dropped: with every piece would mean to copy the end for a few bytes."""


class StderrTail:
    """Takes in what comes on standard error.

    Attributes:
        sign: what is listened for; nothing, if nothing is.
    """

    def __init__(self) -> None:
        self.sign = b""
        self._pieces: list[bytes] = []
        self._size = 0
        self._heard = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size > _MOST_BYTES:
            self._pieces = [self.end]
            self._size = len(self._pieces[0])
        if self.sign:
            self._heard += data

    def listen_for(self, sign: bytes) -> None:
        """Keep all that comes from now on, to find a sign in it; with an empty sign, no longer."""
        self.sign, self._heard = sign, b""

    def copy(self) -> StderrTail:
        """Return a copy that goes on by itself."""
        twin = copy.copy(self)
        twin._pieces = self._pieces.copy()
        return twin

    @property
    def end(self) -> bytes:
        """The end of what came so far, as bytes."""
        return b"".join(self._pieces)[-KEPT_BYTES:]

    @property
    def text(self) -> str:
        """The end of what came so far."""
        return self.end.decode(errors="replace")

    @property
    def heard(self) -> str:
        """All that came since `listen_for()`."""
        return self._heard.decode(errors="replace")

    @property
    def has_sign(self) -> bool:
        """Whether the sign has come."""
        return bool(self.sign) and self.sign in self._heard
