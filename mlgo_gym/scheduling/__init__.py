"""Scheduling: where work runs, with one interface for this process, worker processes, and a cluster."""

from collections.abc import Callable
from dataclasses import dataclass

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling.ray_cluster import FileStore as FileStore
from mlgo_gym.scheduling.ray_cluster import RayCluster as RayCluster
from mlgo_gym.scheduling.ray_cluster import RemoteWork as RemoteWork
from mlgo_gym.scheduling.ray_cluster import StoredFiles as StoredFiles
from mlgo_gym.scheduling.workers import Item, Result
from mlgo_gym.scheduling.workers import WorkerFailure as WorkerFailure
from mlgo_gym.scheduling.workers import Workers as Workers
from mlgo_gym.scheduling.workers import in_process as in_process
from mlgo_gym.scheduling.workers import processes as processes


@dataclass(frozen=True, slots=True)
class Execution:
    """Where work runs: in this process, in worker processes, or on a Ray cluster.

    In a script, several processes require the call to be below `if __name__ == "__main__":`.

    Args:
        jobs: Number of workers (≥ 1). Default: 1, which is this process; with `ray` one worker per CPU of the cluster.
        ray: Address of a Ray cluster: `HOST:PORT`, `ray://HOST:PORT`, `auto` for the cluster on this machine, or
            `local` to start one for the call. Default: no cluster.

    Raises:
        MlgoError: `jobs` is below 1.
    """

    jobs: int | None = None
    ray: str | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise MlgoError(f"expected jobs ≥ 1, got {self.jobs}; use 1 for this process")

    @property
    def in_process(self) -> bool:
        """Whether the work runs in this process."""
        return self.ray is None and self.jobs in (None, 1)

    def workers(
        self,
        start: Callable[[], Callable[[Item], Result]],
        remote: Callable[[], RemoteWork[Item, Result]],
    ) -> Workers[Item, Result]:
        """Return the workers. Worker processes start with the first item, a cluster is connected at once.

        Args:
            start: Returns the function from an item to its result; picklable for worker processes.
            remote: Returns the work as a cluster needs it.

        Raises:
            MissingExtraError: Ray is not installed.
            MlgoError: no cluster answers.
        """
        if self.ray is not None:
            return RayCluster(remote(), self.ray, self.jobs)
        return in_process(start) if self.in_process else processes(start, self.jobs or 1)
