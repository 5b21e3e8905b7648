"""Items, the runners that work on them, queues, and work on other machines."""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

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

    def work(self, items: Sequence[Item]) -> Sequence[tuple[Item, Result_co]]:
        """Add items, work until an item is finished, and return the finished items; nothing if there is no item."""

    def close(self) -> None:
        """Release everything. Idempotent."""


class SequentialRunner(Generic[Item, Result]):
    """Works on one item at a time, in the order of arrival; `compute` returns the result of an item."""

    def __init__(self, compute: Callable[[Item], Result]) -> None:
        self._compute = compute
        self._pending: deque[Item] = deque()

    def work(self, items: Sequence[Item]) -> list[tuple[Item, Result]]:
        """Add items, and return the oldest pending item with its result."""
        self._pending.extend(items)
        return [(item, self._compute(item)) for item in [self._pending.popleft()]] if self._pending else []

    def close(self) -> None:
        """Drop the pending items."""
        self._pending.clear()


class Queue(Protocol[Item]):
    """Source of items, such as a deque; its length is the number of items in it."""

    def popleft(self) -> Item:
        """Remove and return the next item."""

    def extendleft(self, items: Iterable[Item], /) -> None:
        """Return unfinished items, the last one first, to the front of the queue."""

    def __len__(self) -> int: ...


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
