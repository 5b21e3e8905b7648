"""Time that a process waited for a CPU, which does not count towards its timeout."""

from __future__ import annotations

from pathlib import Path

MIN_SHARE = 0.1
"""Minimum share of the timeout that a process must have waited for a CPU to get more time."""


class Starvation:
    """Tells a clang that stalls from one that has no CPU: on an overloaded machine a second's work may take minutes."""

    def __init__(self) -> None:
        self._waited = 0.0

    def grace(self, pid: int, timeout: float) -> float:
        """Return the additional time for a process that was silent for `timeout` seconds, in seconds.

        It is the time that the process has waited for a CPU since the last call, at most the timeout; 0 if that is
        below `MIN_SHARE` of the timeout.
        """
        waited = cpu_wait_seconds(pid)
        more, self._waited = waited - self._waited, waited
        return min(more, timeout) if more > MIN_SHARE * timeout else 0.0


def cpu_wait_seconds(pid: int) -> float:
    """Return the time that the first thread of a process was runnable without a CPU since its start, in seconds.

    0 without `CONFIG_SCHED_INFO`, or if the process has exited. See Linux's Documentation/scheduler/sched-stats.rst,
    `/proc/<pid>/schedstat`.
    """
    try:
        _, nanoseconds, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    except (OSError, ValueError):
        return 0.0
    return int(nanoseconds) / 1e9
