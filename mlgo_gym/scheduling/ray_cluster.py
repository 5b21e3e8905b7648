"""Work on many machines, by Ray: actors on the nodes of a cluster, and files by way of its object store."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import socket
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from mlgo_gym.errors import MissingExtraError, MlgoError, MlgoWarning
from mlgo_gym.scheduling.abroad import Abroad
from mlgo_gym.scheduling.crew import Crew, Gone, Member
from mlgo_gym.scheduling.shelf import Good, digest_of
from mlgo_gym.scheduling.work import Item, Result
from mlgo_gym.storage.leftovers import make_own_folder

LOCAL = "local"
"""The address that stands for a cluster of this machine alone, started for the run."""

SHIPPED_BYTES = 256 << 20
"""So many bytes of files are kept in the object store at once; the nodes keep them on disk."""

LOCAL_STORE_BYTES = 512 << 20
"""The object store of a cluster that is started here."""

MESSAGE_SECONDS = 0.005
"""Twice what a message costs the driver, as benchmarks.scale measures it: it is busy half of its time at most."""

TEMPORARY = "mlgo-ray-"
"""How the folder of a cluster of this machine begins: paths of sockets have 107 bytes at most, and Ray's take 64."""

STARTS = 3
"""How often a cluster of this machine is tried to be started."""

AGAIN = 1
"""How often an item is begun again whose worker was lost."""

_WAITING_SECONDS = 30.0
_KNOCK_SECONDS = 10.0

_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    # Ray would let all else on this machine go first (15), and compilers come to nothing where that is much.
    "RAY_worker_niceness": "0",
}
"""Of Ray, unless the environment has others; the last is for nodes that this process starts."""


def ray_library() -> Any:
    """Return Ray.

    Raises:
        MissingExtraError: it is not installed.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("a run on many machines", "ray") from error
    return ray


class RayCluster(Crew[Item, Result]):
    """Workers on the machines of a Ray cluster, each with a processor of its own.

    A worker checks that its machine has this version of mlgo-gym, and its runner that it has this compiler. Items whose
    worker or machine is lost are begun again elsewhere, once; those that are late at the end run a second time too, and
    the first result counts.

    Args:
        abroad: the work, and the files that it needs.
        address: of a cluster: `HOST:PORT`, `ray://HOST:PORT`, `auto` for the one that runs here, or `LOCAL`. Where this
            process is connected to a cluster already, that one is used.
        jobs: the most workers; None is as many as the cluster has processors.
        room: how many items each is given at once.

    Raises:
        MissingExtraError: Ray is not installed.
        MlgoError: there is no cluster at the address.
    """

    def __init__(self, abroad: Abroad[Item, Result], address: str, jobs: int | None = None, room: int = 1) -> None:
        self._ray = ray_library()
        self._temporary: Path | None = None
        self._ours = not self._ray.is_initialized()
        if self._ours:
            self._connect(address, jobs)
        try:
            processors = int(self._ray.cluster_resources().get("CPU", 0))
            if jobs is None and processors < 1:
                raise MlgoError(f"the cluster at {address} has no processor for a worker; add a node that has")
            super().__init__(jobs or processors, room, again=AGAIN, copies=True, message_seconds=MESSAGE_SECONDS)
            self._abroad = abroad
            self._run_name = f"{self._ray.get_runtime_context().get_job_id()}-{os.urandom(4).hex()}"
            self._shipped: OrderedDict[str, tuple[str, Any, int]] = OrderedDict()
            self._shipped_bytes = 0
            self._start = self._ray.put(self._ray.cloudpickle.dumps(abroad.start))
            self._common = [
                (name, digest_of(good), [self._ray.put(dict(good))]) for name, good in abroad.common.items()
            ]
            self._actor = self._ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(_worker_class())
        except BaseException:
            self._disconnect()
            raise

    def _connect(self, address: str, jobs: int | None) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "namespace": "mlgo-gym"}
        try:
            if address == LOCAL:
                self._start_here(jobs or os.cpu_count() or 1, quiet)
            else:
                _knock(address)
                self._ray.init(address=address, **quiet)
        except Exception as error:
            self._disconnect()
            reason = str(error).strip().split("\n")[0]
            raise MlgoError(
                f"a Ray cluster was to be at {address}, and cannot be used ({type(error).__name__}: {reason}): start "
                "one there with `ray start --head`, give another address, or none for a cluster of this machine"
            ) from error

    def _start_here(self, processors: int, quiet: dict[str, Any]) -> None:
        """Start a cluster of this machine, again where it was too busy: Ray gives a node 30 s, and no option for it."""
        for attempt in range(1, STARTS + 1):
            # Its sockets have long names, and those of sockets are short.
            self._temporary = make_own_folder(Path("/tmp"), TEMPORARY)  # noqa: S108 - made by mkdtemp
            try:
                self._ray.init(
                    address=LOCAL,
                    num_cpus=processors,
                    include_dashboard=False,
                    object_store_memory=LOCAL_STORE_BYTES,
                    _temp_dir=str(self._temporary),
                    **quiet,
                )
            except Exception:  # Ray raises that very class when the time is over
                end_half_started(self._temporary)
                if attempt == STARTS:
                    raise
                self._ray.shutdown()
                shutil.rmtree(self._temporary, ignore_errors=True)
            else:
                return

    def hire(self, room: int) -> Member[Item, Result]:
        """Start an actor; where the cluster is full it begins as soon as there is room."""
        return _RayWorker(self, room)

    def begin(self, room: int) -> tuple[Any, Any]:
        """Start an actor, and return it with the reference of its first message."""
        actor = self._actor.remote()
        version = metadata.version("mlgo-gym")
        return actor, actor.begin.remote(version, self._run_name, [self._start], self._common, room)

    def ship(self, item: Item) -> tuple[Item, str, str, list[Any]]:
        """Put the files of an item into the object store, unless they are there; return what a worker is told."""
        name = self._abroad.needs(item)
        known = self._shipped.pop(name, None)
        if known is None:
            good: Good = self._abroad.pack(name)
            size = sum(map(len, good.values()))
            known = digest_of(good), self._ray.put(dict(good)), size
            self._shipped_bytes += size
            while self._shipped and self._shipped_bytes > SHIPPED_BYTES:
                self._shipped_bytes -= self._shipped.popitem(last=False)[1][2]
        self._shipped[name] = known
        digest, reference, _ = known
        # Within a list it is not fetched before somebody asks for it.
        return item, name, digest, [reference]

    def wait(self, members: Sequence[Member[Item, Result]], seconds: float | None) -> Iterator[Member[Item, Result]]:
        """Wait for messages, and for the ends of actors."""
        by_reference = {member.reference: member for member in members if isinstance(member, _RayWorker)}
        references = list(by_reference)
        patience = _WAITING_SECONDS if not any(member.ready for member in members) else None
        done, _ = self._ray.wait(references, num_returns=1, timeout=patience if seconds is None else seconds)
        if not done and seconds is None:
            free = self._ray.available_resources().get("CPU", 0)
            warnings.warn(
                f"no worker has begun within {patience:g} s: the cluster has {free:g} free processors of "
                f"{self._ray.cluster_resources().get('CPU', 0):g}; going on waiting",
                MlgoWarning,
                stacklevel=2,
            )
        if done:
            # What else is there already is taken in with it.
            done, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        for reference in done:
            yield by_reference[reference]

    def close(self) -> None:
        """End all actors, and the cluster where it was started here. Idempotent."""
        super().close()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._ours:
            self._ours = False
            self._ray.shutdown()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None


class _RayWorker(Member[Item, Result]):
    """An actor."""

    def __init__(self, cluster: RayCluster[Item, Result], room: int) -> None:
        super().__init__(room)
        self._cluster = cluster
        self._ray = ray_library()
        self._actor, self.reference = cluster.begin(room)

    def send(self, items: Sequence[Item]) -> None:
        sent = [self._cluster.ship(item) for item in items]
        self.reference = self._actor.work.remote(sent, self._cluster.interval)

    def receive(self) -> Sequence[tuple[Item, Result]]:
        try:
            message = self._ray.get(self.reference)
        except self._ray.exceptions.RayActorError as error:
            raise Gone(_first_line(error), -1) from error
        except self._ray.exceptions.RayError as error:
            raise Gone(_first_line(error), 1) from error
        if isinstance(message, str):
            raise MlgoError(message)
        results: Sequence[tuple[Item, Result]]
        results, seconds = message
        self.pace = seconds / len(results) if results else 0.0
        return results

    def end(self, patience: float) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            if patience and self.ready:
                done, _ = self._ray.wait([self._actor.close.remote()], timeout=patience)
                del done
            self._ray.kill(self._actor)


def _knock(address: str) -> None:
    """Make sure that something answers at an address: Ray would try for minutes.

    Raises:
        OSError: nothing does.
        ValueError: it is no address.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return  # a word, such as `auto`
    with socket.create_connection((host.strip("[]"), int(port)), _KNOCK_SECONDS):
        pass


def end_half_started(folder: Path) -> None:
    """End what Ray has started of a cluster in a temporary folder; it leaves that running where a start fails."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            child = int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[1]) == os.getpid()
            if child and os.fsencode(folder) in entry.joinpath("cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"


def _worker_class() -> type:
    """Return the class of the actors; it is sent by value, since a machine may have another release of this package."""

    class Worker:
        def begin(
            self, wanted: str, run: str, start: list[Any], common: list[tuple[str, str, list[Any]]], room: int
        ) -> str | tuple[list[Any], float]:
            """Make the runner; return why that cannot be, or that nothing is done yet."""
            import platform
            from functools import partial
            from importlib import metadata

            import ray

            where = f"the node {platform.node()} ({ray.util.get_node_ip_address()})"
            try:
                found = metadata.version("mlgo-gym")
            except metadata.PackageNotFoundError:
                return f"{where} has no mlgo-gym; install {wanted} there, the version of this machine"
            if found != wanted:
                return f"{where} has mlgo-gym {found}, and this machine {wanted}; install one version everywhere"

            from mlgo_gym.errors import MlgoError
            from mlgo_gym.scheduling.shelf import Shelf

            self.shelf = Shelf(run)
            self.room = room
            self.waiting: list[Any] = []
            self.busy = 0
            for name, digest, reference in common:
                fetch: Any = partial(ray.get, reference[0])
                self.shelf.put(name, digest, fetch)
            try:
                self.runner = ray.cloudpickle.loads(ray.get(start[0]))(room, self.shelf)
            except MlgoError as error:
                return f"{where}: {error}"
            return [], 0.0

        def work(self, items: list[tuple[Any, str, str, list[Any]]], interval: float) -> tuple[list[Any], float]:
            """Take items; return the results of those that are done after a while, one at least, and the seconds."""
            import time
            from functools import partial

            import ray

            begun = time.monotonic()

            for item, name, digest, reference in items:
                fetch: Any = partial(ray.get, reference[0])
                self.shelf.put(name, digest, fetch)
                self.waiting.append(item)
            results: list[Any] = []
            while not results or time.monotonic() - begun < interval:
                while self.waiting and self.busy < self.room:
                    self.runner.take(self.waiting.pop(0))
                    self.busy += 1
                if not self.busy:
                    break
                done = self.runner.go_on()
                self.busy -= len(done)
                results += done
            return results, time.monotonic() - begun

        def close(self) -> None:
            """Let go of everything."""
            self.runner.close()
            self.shelf.close()

    return Worker


def ray_address(given: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Return the address of the cluster: as given, else `$RAY_ADDRESS`, else `LOCAL`."""
    return given or environment.get("RAY_ADDRESS") or LOCAL
