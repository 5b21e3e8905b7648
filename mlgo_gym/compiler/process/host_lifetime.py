"""Resources bound to this process: closed in its forks, and process groups that the kernel kills when it exits."""

from __future__ import annotations

import fcntl
import os
import signal
import weakref
from typing import Protocol

from mlgo_gym.compiler.process.interrupts import uninterrupted


class Closable(Protocol):
    """Anything that holds descriptors."""

    def close(self) -> None:
        """Close everything. Idempotent."""


_live: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_after_fork(resource: Closable) -> None:
    """Close a resource in every fork of this process: compilers belong to the original."""
    _live.add(resource)


def cancel_close_after_fork(resource: Closable) -> None:
    """Undo `close_after_fork()`."""
    _live.discard(resource)


def _close_all() -> None:
    for resource in list(_live):
        resource.close()


os.register_at_fork(after_in_child=_close_all)


class HostPipe:
    """A pipe whose read end a program inherits; forks of this process close both ends.

    Attributes:
        read_end: Descriptor that the program inherits.
    """

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()
        # The program must see the end of the pipe when this process exits.
        close_after_fork(self)

    @uninterrupted()
    def close(self) -> None:
        """Close both ends. Idempotent."""
        for descriptor in (self.read_end, self._write_end):
            if descriptor >= 0:
                os.close(descriptor)
        self.read_end = self._write_end = -1
        cancel_close_after_fork(self)


class Guard(HostPipe):
    """A pipe that kills a process group when it is closed, also by the exit of this process.

    The group holds the read end. The kernel sends it SIGKILL (`F_SETOWN`, `F_SETSIG`, `O_ASYNC`, see fcntl(2)) when the
    only write end is closed. A parent-death signal would need code between fork and exec, and fires when the starting
    thread exits. This process may be killed before `watch()`: the program must wait for input that follows it.
    """

    def watch(self, pid: int) -> None:
        """Kill process group `pid` when this is closed; the group keeps the only read end."""
        kill_group_with(self.read_end, pid)
        os.close(self.read_end)
        self.read_end = -1


def kill_group_with(read_end: int, pid: int) -> None:
    """Let the kernel kill process group `pid` when the last write end of its pipe is closed."""
    fcntl.fcntl(read_end, fcntl.F_SETOWN, -pid)
    fcntl.fcntl(read_end, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(read_end, fcntl.F_SETFL, os.O_ASYNC)
