"""What ends with its host, however that ends: a process group that the kernel kills once a pipe is closed."""

from __future__ import annotations

import fcntl
import os
import signal

from mlgo_gym.session.host_pipe import HostPipe


class Guard(HostPipe):
    """A pipe whose read end a process group holds, and whose only write end is here.

    The pipe is told (`F_SETOWN`, `F_SETSIG`, `O_ASYNC`, see fcntl(2)) to send SIGKILL to the group when the write end
    goes away, which happens however the host ends. Unlike a parent-death signal this needs no code between fork and
    exec, and does not fire when merely the thread that started the process ends. A host can be killed before
    `watch()`, though: a program that could then go on for ever is to wait for what comes after that.

    Closing it ends who is watched.
    """

    def watch(self, pid: int) -> None:
        """Have a process group killed when this is closed, and close our copy of the end that it holds.

        Args:
            pid: the group, which is also the process that leads it.
        """
        kill_group_with(self.read_end, pid)
        os.close(self.read_end)
        self.read_end = -1


def kill_group_with(read_end: int, pid: int) -> None:
    """Have the kernel send SIGKILL to a process group when the last write end of a pipe that it holds is closed."""
    fcntl.fcntl(read_end, fcntl.F_SETOWN, -pid)
    fcntl.fcntl(read_end, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(read_end, fcntl.F_SETFL, os.O_ASYNC)
