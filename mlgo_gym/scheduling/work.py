"""Interfaces of scheduling: items, the runners that work on them, queues, workers, and work on other machines."""

from __future__ import annotations

import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from typing_extensions import Self

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.temporary_folders import make_process_folder

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)

StoredFiles = Mapping[str, bytes]
"""Files that belong together, such as a module with its flags: contents by relative path."""


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """Replaces the result of an item whose worker exited.

    Attributes:
        how: Cause in words, such as `"signal 9 (SIGKILL)"`.
        status: Exit status of the worker; negative for a signal.
    """

    how: str
    status: int

    def __str__(self) -> str:
        return f"the worker exited: {self.how}"


class Runner(Protocol[Item, Result_co]):
    """Works on one or several items at the same time."""

    def submit(self, item: Item) -> None:
        """Add an item; `collect()` works on it."""

    def collect(self) -> Sequence[tuple[Item, Result_co]]:
        """Work until a submitted item is finished, and return the finished items; nothing if none was submitted."""

    def close(self) -> None:
        """Release everything. Idempotent."""


class SequentialRunner(Generic[Item, Result]):
    """Works on one item at a time, in the order of submission; `work` returns the result of an item."""

    def __init__(self, work: Callable[[Item], Result]) -> None:
        self._work = work
        self._pending: deque[Item] = deque()

    def submit(self, item: Item) -> None:
        """Add an item; `collect()` works on it."""
        self._pending.append(item)

    def collect(self) -> list[tuple[Item, Result]]:
        """Work on the oldest pending item, and return it with its result."""
        if not self._pending:
            return []
        item = self._pending.popleft()
        return [(item, self._work(item))]

    def close(self) -> None:
        """Drop the pending items."""
        self._pending.clear()


class Queue(Protocol[Item]):
    """Source of items."""

    def take(self) -> Item | None:
        """Remove and return the next item; None if the queue is empty."""

    def put_back(self, items: Sequence[Item]) -> None:
        """Return unfinished items to the front of the queue."""

    def __len__(self) -> int:
        """Return the number of items in the queue."""


class ItemQueue(Generic[Item]):
    """A queue of a fixed set of items, each once; the first is taken first."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = deque(items)

    def take(self) -> Item | None:
        """Remove and return the next item; None if the queue is empty."""
        return self._items.popleft() if self._items else None

    def put_back(self, items: Iterable[Item]) -> None:
        """Return unfinished items to the front of the queue."""
        self._items.extendleft(reversed(list(items)))

    def __len__(self) -> int:
        return len(self._items)


class Workers(ABC, Generic[Item, Result]):
    """Runs the items of a queue: in this process, in worker processes, or on a cluster."""

    @abstractmethod
    def run(self, queue: Queue[Item]) -> Generator[tuple[Item, Result | WorkerFailure], None, None]:
        """Yield each item of a queue with its result as soon as it is finished, in no particular order.

        Closing the generator early ends the unfinished work. `run()` may be called again afterwards.
        """

    @abstractmethod
    def close(self) -> None:
        """End all work. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class InProcess(Workers[Item, Result]):
    """One worker, which is this process; the arguments are those of `Execution.workers()`.

    The first item starts the runner. An exception of the work leaves `run()`.
    """

    def __init__(self, start: Callable[[int], Runner[Item, Result]], capacity: int = 1) -> None:
        self._start = start
        self._capacity = capacity
        self._runner: Runner[Item, Result] | None = None

    def run(self, queue: Queue[Item]) -> Generator[tuple[Item, Result | WorkerFailure], None, None]:
        """Yield each item of a queue with its result."""
        busy = 0
        try:
            while True:
                while busy < self._capacity and (item := queue.take()) is not None:
                    self._runner = self._runner or self._start(self._capacity)
                    self._runner.submit(item)
                    busy += 1
                if self._runner is None or not busy:
                    return
                results = self._runner.collect()
                busy -= len(results)
                yield from results
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the runner. Idempotent."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()


class WorkerLoop(Generic[Item, Result]):
    """The work of a worker on the items of messages; its runner has at most `capacity` of them at a time."""

    def __init__(self, runner: Runner[Item, Result], capacity: int) -> None:
        self._runner = runner
        self._capacity = capacity
        self._waiting: deque[Item] = deque()
        self._busy = 0

    def work(self, items: Iterable[Item], interval: float = 0.0) -> tuple[list[tuple[Item, Result]], float]:
        """Take items; return the results of at least one item after `interval` seconds, and the seconds spent."""
        started = time.monotonic()
        self._waiting.extend(items)
        results: list[tuple[Item, Result]] = []
        while not results or time.monotonic() - started < interval:
            while self._waiting and self._busy < self._capacity:
                self._runner.submit(self._waiting.popleft())
                self._busy += 1
            if not self._busy:
                break
            finished = self._runner.collect()
            self._busy -= len(finished)
            results += finished
        return results, time.monotonic() - started


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
        start: Makes a runner on the other machine, from its capacity and the store with the received files.
        needs: Returns the name of the files that an item needs, such as its module.
        pack: Returns the files of a name. Called on this machine whenever they are not in the object store.
        common: Files that every runner needs, by name, such as the networks of policies.
    """

    start: Callable[[int, FileStore], Runner[Item, Result]]
    needs: Callable[[Item], str]
    pack: Callable[[str], StoredFiles]
    common: Mapping[str, StoredFiles] = field(default_factory=dict)
