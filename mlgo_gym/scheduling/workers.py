"""From what a user asks for (`--jobs`) to the workers."""

from __future__ import annotations

from collections.abc import Callable

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling.here import Here
from mlgo_gym.scheduling.processes import Processes
from mlgo_gym.scheduling.work import Item, Result, Runner, Workers


def workers(start: Callable[[int], Runner[Item, Result]], jobs: int, room: int = 1) -> Workers[Item, Result]:
    """Return the workers of a number of jobs; nothing is started before they are given something to do.

    Args:
        start: makes a runner, here or in another process: it can be pickled where there are several jobs. It is told
            how many items it is given at once.
        jobs: how many processes; 1 is this one.
        room: how many items each works on at once.

    Raises:
        MlgoError: a number is below 1.
    """
    for name, value in (("jobs", jobs), ("room", room)):
        if value < 1:
            raise MlgoError(f"{name} was to be at least 1, found {value}")
    return Here(start, room) if jobs == 1 else Processes(start, jobs, room)
