"""Work on many machines: Ray actors on the nodes of a cluster, and files through its object store."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import socket
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from mlgo_gym.errors import MlgoError, MlgoWarning
from mlgo_gym.extras import library
from mlgo_gym.scheduling.work import Item, RemoteWork, Result
from mlgo_gym.scheduling.worker_pool import PoolWorker, WorkerExitedError, WorkerPool
from mlgo_gym.storage.temporary_folders import make_process_folder

LOCAL = "local"
"""The address that starts a cluster of this machine alone for the run."""

_STORED = 256
"""Number of names whose files stay in the object store; the workers keep their own copies on disk."""

_LOCAL_STORE_BYTES = 512 << 20
"""Size of the object store of a cluster that is started here."""

_MESSAGE_SECONDS = 0.005
"""Twice the time that a message costs the driver, so that messages take at most half of its time."""

_TEMPORARY = "mlgo-ray-"
"""Prefix of the folder of a local cluster. Short: socket paths have at most 107 bytes, of which Ray takes 64."""

STARTS = 3
"""Number of attempts to start a local cluster."""

_RETRIES = 1
"""Number of times that an item is retried after its worker exited."""

_START_SECONDS = 30.0
_CONNECT_SECONDS = 10.0

_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    # Ray's default niceness (15) starves compilers on a busy machine.
    "RAY_worker_niceness": "0",
}
"""Settings of Ray that the environment does not set; the last is for nodes that this process starts."""


def ray_library() -> Any:
    """Return the module `ray`; raise `MissingExtraError` if it is not installed."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    return library("ray", "a run on many machines", "ray")


def ray_address(given: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Return the address of the cluster: the given one, else `$RAY_ADDRESS`, else `LOCAL`."""
    return given or environment.get("RAY_ADDRESS") or LOCAL


class RayCluster(WorkerPool[Item, Result]):
    """Workers on the machines of a Ray cluster, each on one CPU.

    Each worker checks that its machine has this version of mlgo-gym; its runner checks the compiler. Items of a worker
    that exits, or of a machine that fails, are retried once.

    The arguments are those of `Execution` and of `Execution.workers()`. The address is ignored where this process is
    connected to a cluster already.

    Raises:
        MissingExtraError: Ray is not installed.
        MlgoError: No cluster answers at the address.
    """

    def __init__(
        self, remote: RemoteWork[Item, Result], address: str, jobs: int | None = None, capacity: int = 1
    ) -> None:
        self._ray = ray_library()
        self._temporary: Path | None = None
        self._connected = not self._ray.is_initialized()
        if self._connected:
            self._connect(address, jobs)
        try:
            cpus = int(self._ray.cluster_resources().get("CPU", 0))
            if jobs is None and cpus < 1:
                raise MlgoError(f"expected a cluster with a free CPU, got none at {address!r}; add a node")
            super().__init__(jobs or cpus, capacity, retries=_RETRIES, message_seconds=_MESSAGE_SECONDS)
            self._remote = remote
            self._upload = lru_cache(maxsize=_STORED)(lambda name: self._ray.put(dict(remote.pack(name))))
            self._start = self._ray.put(self._ray.cloudpickle.dumps(remote.start))
            self._common = {name: [self._ray.put(dict(files))] for name, files in remote.common.items()}
            self._actor = self._ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(_worker_class())
        except BaseException:
            self._disconnect()
            raise

    def _connect(self, address: str, jobs: int | None) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "namespace": "mlgo-gym"}
        try:
            if address == LOCAL:
                self._start_local(jobs or os.cpu_count() or 1, quiet)
            else:
                _check_reachable(address)
                self._ray.init(address=address, **quiet)
        except Exception as error:
            self._disconnect()
            reason = str(error).strip().split("\n")[0]
            raise MlgoError(
                f"expected a Ray cluster at {address!r}, got {type(error).__name__}: {reason}; start one there with "
                "`ray start --head`, give another address, or none for a cluster of this machine"
            ) from error

    def _start_local(self, cpus: int, quiet: dict[str, Any]) -> None:
        """Start a cluster of this machine. Ray fails on a busy machine: it gives a node 30 s, without an option."""
        for attempt in range(1, STARTS + 1):
            # Not in $TMPDIR, whose path may be too long for a socket.
            self._temporary = make_process_folder(Path("/tmp"), _TEMPORARY)  # noqa: S108 - made by mkdtemp
            try:
                self._ray.init(
                    address=LOCAL,
                    num_cpus=cpus,
                    include_dashboard=False,
                    object_store_memory=_LOCAL_STORE_BYTES,
                    _temp_dir=str(self._temporary),
                    **quiet,
                )
            except Exception:  # the class that Ray raises after a timeout
                kill_started_processes(self._temporary)
                if attempt == STARTS:
                    raise
                self._ray.shutdown()
                shutil.rmtree(self._temporary, ignore_errors=True)
            else:
                return

    def start_worker(self) -> PoolWorker[Item, Result]:
        """Create an actor; in a full cluster it starts as soon as a CPU is free."""
        actor = self._actor.remote()
        started = actor.start.remote(metadata.version("mlgo-gym"), [self._start], self._common, self._capacity)
        return _RayWorker(self, actor, started)

    def message(self, item: Item) -> tuple[Item, str, list[Any]]:
        """Return the message of an item for a worker, with its name and its files in the object store."""
        name = self._remote.needs(item)
        # Ray fetches a reference within a list only on request.
        return item, name, [self._upload(name)]

    def wait(self, workers: Sequence[PoolWorker[Item, Result]]) -> list[PoolWorker[Item, Result]]:
        """Wait for a message or the end of an actor; warn if none starts."""
        by_reference = {worker.reference: worker for worker in workers if isinstance(worker, _RayWorker)}
        references = list(by_reference)
        timeout = None if any(worker.ready for worker in workers) else _START_SECONDS
        if not self._ray.wait(references, num_returns=1, timeout=timeout)[0]:
            free = self._ray.available_resources().get("CPU", 0)
            warnings.warn(
                f"no worker has started within {timeout:g} s: the cluster has {free:g} free CPUs of "
                f"{self._ray.cluster_resources().get('CPU', 0):g}; still waiting",
                MlgoWarning,
                stacklevel=2,
            )
        # All messages that have arrived.
        arrived, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        return [by_reference[reference] for reference in arrived]

    def close(self) -> None:
        """End all actors, and a cluster that was started here. Idempotent."""
        super().close()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connected:
            self._connected = False
            self._ray.shutdown()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None


class _RayWorker(PoolWorker[Item, Result]):
    def __init__(self, cluster: RayCluster[Item, Result], actor: Any, started: Any) -> None:
        super().__init__()
        self._cluster = cluster
        self._ray = ray_library()
        self._actor, self.reference = actor, started

    def send(self, items: Sequence[Item]) -> None:
        sent = [self._cluster.message(item) for item in items]
        self.reference = self._actor.work.remote(sent, self._cluster.interval)

    def receive(self) -> tuple[Sequence[tuple[Item, Result]], float]:
        try:
            message = self._ray.get(self.reference)
        except self._ray.exceptions.RayActorError as error:
            raise WorkerExitedError(_last_line(error), -1) from error
        except self._ray.exceptions.RayError as error:
            raise WorkerExitedError(_last_line(error), 1) from error
        if isinstance(message, str):
            raise MlgoError(message)
        results, seconds = message
        return results, seconds

    def stop(self, timeout: float) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            if timeout and self.ready:
                self._ray.wait([self._actor.close.remote()], timeout=timeout)
            self._ray.kill(self._actor)


def _check_reachable(address: str) -> None:
    """Connect to an address once: Ray itself would try for minutes. Raise an error if nothing answers."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return  # a word, such as `auto`
    with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
        pass


def kill_started_processes(folder: Path) -> None:
    """Kill the processes of a cluster in a temporary folder: Ray leaves them running if a start fails."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            child = int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[1]) == os.getpid()
            if child and os.fsencode(folder) in entry.joinpath("cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"


def _worker_class() -> type:
    """Return the class of the actors; it is sent by value, since a machine may have another release of this package."""

    class Worker:
        def start(
            self, expected: str, start: list[Any], common: dict[str, list[Any]], capacity: int
        ) -> str | tuple[list[Any], float]:
            """Make the runner; return an error message, or an empty list of results."""
            import platform
            from functools import partial
            from importlib import metadata

            import ray

            where = f"the node {platform.node()} ({ray.util.get_node_ip_address()})"
            try:
                found = metadata.version("mlgo-gym")
            except metadata.PackageNotFoundError:
                found = "none"
            if found != expected:
                return f"expected mlgo-gym {expected} on {where}, got {found}; install one version everywhere"

            from mlgo_gym.errors import MlgoError
            from mlgo_gym.scheduling import FileStore
            from mlgo_gym.scheduling.work import WorkerLoop

            self.store = FileStore()
            for name, reference in common.items():
                self.store.put(name, partial(ray.get, reference[0]))
            try:
                self.runner = ray.cloudpickle.loads(ray.get(start[0]))(capacity, self.store)
            except MlgoError as error:
                return f"{where}: {error}"
            self.loop = WorkerLoop(self.runner, capacity)
            return [], 0.0

        def work(self, items: list[tuple[Any, str, list[Any]]], interval: float) -> tuple[list[Any], float]:
            """Store the files of items, and work as `WorkerLoop.work()`."""
            from functools import partial

            import ray

            for _, name, reference in items:
                self.store.put(name, partial(ray.get, reference[0]))
            return self.loop.work([item for item, *_ in items], interval)

        def close(self) -> None:
            """Release the runner and the files."""
            self.runner.close()
            self.store.close()

    return Worker
