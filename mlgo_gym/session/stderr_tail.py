"""What a clang says on standard error: the end of it, and all of it from when a sign is listened for."""

from __future__ import annotations

import copy

KEPT_BYTES = 64 * 1024
"""How much of the end is kept."""


class StderrTail:
    """Takes in what comes on standard error.

    Attributes:
        sign: what is listened for; nothing, if nothing is.
        end: the end of what came so far, as bytes.
    """

    def __init__(self) -> None:
        self.sign = b""
        self.end = b""
        self._heard = b""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self.end = (self.end + data)[-KEPT_BYTES:]
        if self.sign:
            self._heard += data

    def listen_for(self, sign: bytes) -> None:
        """Keep all that comes from now on, to find a sign in it; with an empty sign, no longer."""
        self.sign, self._heard = sign, b""

    def copy(self) -> StderrTail:
        """Return a copy that goes on by itself."""
        return copy.copy(self)

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
