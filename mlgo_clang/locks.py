"""Locks between processes with a deadline: a process that holds one and does not continue never blocks the others."""

from __future__ import annotations

import os

_PAUSE = 0.01
_LARGEST_PAUSE = 0.2


def lock(descriptor: int, seconds: float) -> bool:
    """Lock a file exclusively, as flock(2) does; closing the descriptor unlocks it.

    Returns:
        Whether the file is locked. It is not if another process holds the lock for all these seconds, or if that
        process is stopped, for instance by Ctrl-Z.
    """
    import fcntl
    import time

    deadline, pause = time.monotonic() + seconds, _PAUSE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or is_stopped(holder(descriptor)):
                return False
            time.sleep(min(pause, remaining))
            pause = min(2 * pause, _LARGEST_PAUSE)
        else:
            return True


def holder(descriptor: int) -> int:
    """Return the process that locks a file (`/proc/locks`); 0 if it is not known."""
    status = os.fstat(descriptor)
    name = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        with open("/proc/locks", encoding="ascii") as file:
            fields = [line.split() for line in file]
    except OSError:
        return 0
    return next((int(line[4]) for line in fields if line[1:2] == ["FLOCK"] and line[5:6] == [name]), 0)


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by a signal or a debugger."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] in (b"T", b"t")
    except OSError:
        return False
