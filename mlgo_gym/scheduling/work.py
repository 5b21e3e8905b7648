"""Interfaces of scheduling: items, the runners that work on them, queues, workers, and work on other machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from typing_extensions import Self

from mlgo_gym.scheduling.file_store import FileStore, StoredFiles

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


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


class Queue(Protocol[Item]):
    """Source of items."""

    def take(self) -> Item | None:
        """Remove and return the next item; None if the queue is empty."""

    def put_back(self, items: Sequence[Item]) -> None:
        """Return unfinished items to the front of the queue."""

    def __len__(self) -> int:
        """Return the number of items in the queue."""


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
