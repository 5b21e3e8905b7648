"""How long a process could not compute because others had the processors: silence that is not its own."""

from __future__ import annotations

from pathlib import Path

LITTLE = 0.1
"""Where a process waited for less than such a part of a timeout, it was silent by itself."""


class Starvation:
    """Tells a clang that is silent from one that cannot compute.

    On a machine that has far too much to do, a clang may take minutes for what it computes in a second.
    """

    def __init__(self) -> None:
        self._waited = 0.0

    def grace(self, pid: int, timeout: float) -> float:
        """Return for how much longer a process that was silent for so long is to be waited for, in seconds.

        As long as it has waited for a processor since this was last asked, and the timeout at most; 0 where that was
        little. Being asked again and again, it ends as soon as the process had processors for about the timeout.
        """
        waited = waited_for_processor(pid)
        more, self._waited = waited - self._waited, waited
        return min(more, timeout) if more > LITTLE * timeout else 0.0


def waited_for_processor(pid: int) -> float:
    """Return how long the first thread of a process was ready and had no processor since its start, in seconds.

    0 where the kernel does not tell (`CONFIG_SCHED_INFO`), or the process has ended.

    See `Documentation/scheduler/sched-stats.rst` of Linux, `/proc/<pid>/schedstat`.
    """
    try:
        _, nanoseconds, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    except (OSError, ValueError):
        return 0.0
    return int(nanoseconds) / 1e9
