"""A pipe to a program, of which this process alone has the write end."""

from __future__ import annotations

import os

from mlgo_gym.session.host_fork import close_after_fork, forget


class HostPipe:
    """A pipe whose read end a program inherits; a forked copy of this process keeps neither end.

    Attributes:
        read_end: what the program has to inherit.
    """

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()
        # What the program waits for, or dies of, is that nobody can write any more.
        close_after_fork(self)

    def close(self) -> None:
        """Close both ends. Idempotent."""
        for descriptor in (self.read_end, self._write_end):
            if descriptor >= 0:
                os.close(descriptor)
        self.read_end = self._write_end = -1
        forget(self)
