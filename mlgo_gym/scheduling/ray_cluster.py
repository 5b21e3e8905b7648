"""Work on many machines: Ray actors on the nodes of a cluster, and files through its object store."""

import contextlib
import logging
import os
import platform
import shutil
import socket
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Generic

from mlgo_gym.errors import MlgoError, MlgoWarning
from mlgo_gym.extras import library
from mlgo_gym.scheduling.workers import Item, Result, Worker, WorkerFailure, Workers
from mlgo_gym.storage.temporary_folders import make_process_folder

_STORED = 256
"""Number of names whose files stay in the object store; the workers keep their own copies on disk."""

_START_SECONDS = 30.0
_CONNECT_SECONDS = 10.0

_LOCAL_RESTARTS = 2
"""Further attempts to start a local cluster. Ray 2.60 fails if the node needs more than 30 s, or meets a used port."""

_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    # Ray's default niceness (15) starves compilers on a busy machine.
    "RAY_worker_niceness": "0",
}
"""Settings of Ray that the environment does not set; the last is for nodes that this process starts."""

StoredFiles = Mapping[str, bytes]
"""Files that belong together, such as a module with its flags: contents by relative path."""


class FileStore:
    """The files that one worker received, in a temporary folder. Opening a store removes those of killed workers."""

    def __init__(self) -> None:
        self._folder = make_process_folder(Path(tempfile.gettempdir()), "mlgo-gym-store-")
        self._folders: dict[str, Path] = {}

    def put(self, name: str, fetch: Callable[[], StoredFiles]) -> None:
        """Store files under a name for `folder()`; `fetch` is called only if the store has none of this name."""
        if name in self._folders:
            return
        folder = self._folder / str(len(self._folders))
        for part, content in fetch().items():
            path = folder / part
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self._folders[name] = folder

    def folder(self, name: str) -> Path:
        """Return the folder with the files of a name; raise `MlgoError` if the store has none."""
        if name not in self._folders:
            raise MlgoError(
                f"expected the files of one of this worker's items, got {name!r}; a worker receives no other files of "
                "the machine that started the run"
            )
        return self._folders[name]

    def close(self) -> None:
        """Remove the files. Idempotent."""
        shutil.rmtree(self._folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class RemoteWork(Generic[Item, Result]):
    """The same work for a machine without this machine's files.

    Attributes:
        start: Returns the function from an item to its result on the other machine, whose store has received files.
        needs: Returns the name of the files that an item needs, such as its module.
        pack: Returns the files of a name, on this machine, whenever they are not in the object store.
        common: Files that every worker needs, by name, such as the networks of policies.
    """

    start: Callable[[FileStore], Callable[[Item], Result]]
    needs: Callable[[Item], str]
    pack: Callable[[str], StoredFiles]
    common: Mapping[str, StoredFiles] = field(default_factory=dict)


def ray_library() -> Any:
    """Return the module `ray`; raise `MissingExtraError` if it is not installed."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    return library("ray", "a run on many machines", "ray")


class RayCluster(Workers[Item, Result]):
    """Workers on the machines of a Ray cluster, each on one CPU.

    Each worker checks that its machine has this version of mlgo-gym; the work checks the compiler. Items of a worker
    that exits, or of a machine that fails, are retried once. The address is ignored where this process is connected to
    a cluster already. Arguments and errors are those of `Execution` and of `Execution.workers()`.
    """

    def __init__(self, remote: RemoteWork[Item, Result], address: str, jobs: int | None = None) -> None:
        self._ray = ray_library()
        with ExitStack() as stack:
            if not self._ray.is_initialized():
                self._connect(address, stack)
            cpus = int(self._ray.cluster_resources().get("CPU", 0))
            if jobs is None and cpus < 1:
                raise MlgoError(f"expected a cluster with a free CPU, got none at {address!r}; add a node")
            super().__init__(self._start_actor, self._wait_for_actors, jobs or cpus, retries=1)
            self._needs = remote.needs
            self._upload = lru_cache(maxsize=_STORED)(lambda name: self._ray.put(dict(remote.pack(name))))
            common = {name: [self._ray.put(dict(files))] for name, files in remote.common.items()}
            start = [self._ray.put(self._ray.cloudpickle.dumps(remote.start))]
            self._arguments = metadata.version("mlgo-gym"), start, common
            self._actor = self._ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(_Actor)
            self._connection = stack.pop_all()

    def _connect(self, address: str, stack: ExitStack) -> None:
        settings = {"log_to_driver": False, "logging_level": logging.ERROR, "namespace": "mlgo-gym"}
        try:
            host, colon, port = address.removeprefix("ray://").rpartition(":")
            if colon:  # not a word, such as `auto`; Ray itself would try for minutes
                socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
            stack.callback(self._ray.shutdown)
            for _ in range(_LOCAL_RESTARTS if address == "local" else 0):
                with contextlib.suppress(Exception):
                    self._ray.init(address=address, **settings)
                    return
                self._ray.shutdown()
            self._ray.init(address=address, **settings)
        except Exception as error:
            reason = str(error).strip().split("\n")[0]
            raise MlgoError(
                f"expected a Ray cluster at {address!r}, got {type(error).__name__}: {reason}; start one there with "
                "`ray start --head`, or give another address"
            ) from error

    def _start_actor(self) -> Worker[Item, Result]:
        """Create an actor; in a full cluster it starts as soon as a CPU is free."""
        actor = self._actor.remote()
        return _RayWorker(self, actor, actor.start.remote(*self._arguments))

    def message(self, item: Item) -> tuple[Item, str, list[Any]]:
        """Return the message of an item for a worker, with its name and its files in the object store."""
        name = self._needs(item)
        return item, name, [self._upload(name)]

    def _wait_for_actors(self, workers: Sequence[Worker[Item, Result]]) -> list[Worker[Item, Result]]:
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
        """End all actors, and disconnect. Idempotent."""
        super().close()
        self._connection.close()


class _RayWorker(Worker[Item, Result]):
    def __init__(self, cluster: RayCluster[Item, Result], actor: Any, started: Any) -> None:
        super().__init__()
        self._cluster, self._actor, self.reference = cluster, actor, started
        self._ray = ray_library()

    def send(self, item: Item) -> None:
        self.reference = self._actor.work.remote(*self._cluster.message(item))

    def receive(self) -> Result | WorkerFailure:
        try:
            message: Result = self._ray.get(self.reference)
        except self._ray.exceptions.RayError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            status = -1 if isinstance(error, self._ray.exceptions.RayActorError) else 1
            return WorkerFailure(f"{type(error).__name__}: {lines[-1] if lines else ''}", status)
        if not self.ready and message is not None:
            raise MlgoError(str(message))
        return message

    def stop(self, timeout: float) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            if timeout and self.ready:
                self._ray.wait([self._actor.close.remote()], timeout=timeout)
            self._ray.kill(self._actor)


class _Actor:
    """A worker on one CPU of a node. A reference within a list is fetched only on request."""

    def start(self, version: str, start: list[Any], common: dict[str, list[Any]]) -> str | None:
        """Start the work; return an error message, or None."""
        self._ray = ray_library()
        where = f"the node {platform.node()} ({self._ray.util.get_node_ip_address()})"
        if (own := metadata.version("mlgo-gym")) != version:
            return f"expected mlgo-gym {version} on {where}, got {own}; install one version everywhere"
        self._store = FileStore()
        for name, reference in common.items():
            self._put(name, reference)
        try:
            self._compute = self._ray.cloudpickle.loads(self._ray.get(start[0]))(self._store)
        except MlgoError as error:
            return f"{where}: {error}"
        return None

    def _put(self, name: str, reference: list[Any]) -> None:
        self._store.put(name, lambda: self._ray.get(reference[0]))

    def work(self, item: Any, name: str, reference: list[Any]) -> Any:
        self._put(name, reference)
        return self._compute(item)

    def close(self) -> None:
        self._store.close()
