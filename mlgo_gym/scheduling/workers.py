"""From what a user asks for (`--jobs`, `--ray`) to the workers."""

from __future__ import annotations

from collections.abc import Callable

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling.abroad import Abroad
from mlgo_gym.scheduling.here import Here
from mlgo_gym.scheduling.processes import Processes
from mlgo_gym.scheduling.ray_cluster import RayCluster
from mlgo_gym.scheduling.work import Item, Result, Runner, Workers


def workers(
    start: Callable[[int], Runner[Item, Result]],
    jobs: int | None = None,
    room: int = 1,
    *,
    ray: str | None = None,
    abroad: Callable[[], Abroad[Item, Result]] | None = None,
) -> Workers[Item, Result]:
    """Return the workers; but for a cluster nothing is started before they are given something to do.

    Args:
        start: makes a runner, here or in another process: it can be pickled where there are several jobs. It is told
            how many items it is given at once.
        jobs: how many workers; 1 is this process. None is 1, and on a cluster as many as it has processors.
        room: how many items each works on at once.
        ray: the address of a Ray cluster, as `RayCluster` takes it, on whose machines the work is done.
        abroad: returns how it is done there; called where `ray` is given.

    Raises:
        MissingExtraError: Ray is not installed.
        MlgoError: a number is below 1, there is no cluster, or this work cannot be done on one.
    """
    for name, value in (("jobs", jobs), ("room", room)):
        if value is not None and value < 1:
            raise MlgoError(f"{name} was to be at least 1, found {value}")
    if ray is not None:
        if abroad is None:
            raise MlgoError("this work cannot be done on other machines; leave ray= out")
        return RayCluster(abroad(), ray, jobs, room)
    return Here(start, room) if jobs in (None, 1) else Processes(start, jobs or 1, room)
