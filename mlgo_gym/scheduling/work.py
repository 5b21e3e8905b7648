"""What work is: items that wait, runners that work on some of them, and where runners are."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

Item = TypeVar("Item", bound=Hashable)
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Lost:
    """Comes in place of a result where whoever worked on the item has died.

    Attributes:
        how: in words, such as `"signal 9 (SIGKILL)"`.
        status: the exit status of the process; a signal is negative.
    """

    how: str
    status: int

    def __str__(self) -> str:
        return f"the worker died: {self.how}"


class Runner(Protocol[Item, Result_co]):
    """Works on items, on several at once where it can."""

    def take(self, item: Item) -> None:
        """Take an item, to be begun by `go_on()`."""

    def go_on(self) -> Sequence[tuple[Item, Result_co]]:
        """Work until an item that was taken is done, and return what is; nothing where nothing was taken."""

    def close(self) -> None:
        """End. Idempotent."""


class Queue(Protocol[Item]):
    """Where items come from."""

    def take(self) -> Item | None:
        """Return the next item, or None when there is none left."""

    def put_back(self, items: Sequence[Item]) -> None:
        """Take items back that have no result, to be taken again before all others."""

    def __len__(self) -> int:
        """Return how many are left."""


class Workers(Protocol[Item, Result]):
    """Where work is done. What is new (another machine, say) is one more class with these methods."""

    def run(self, queue: Queue[Item]) -> Generator[tuple[Item, Result | Lost], None, None]:
        """Yield each item of a queue with its result as soon as it is there, in no particular order.

        It may be called again when all is done. When the iteration is left before, work on what is not done ends.
        """

    def close(self) -> None:
        """End all work. Idempotent."""

    def __enter__(self) -> Workers[Item, Result]: ...

    def __exit__(self, *_: object) -> None: ...


class Backlog(Generic[Item]):
    """A queue of items that are known from the start.

    Args:
        items: the items, each once; the first is taken first.
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = deque(items)

    def take(self) -> Item | None:
        """Return the next item, or None when there is none left."""
        return self._items.popleft() if self._items else None

    def put_back(self, items: Iterable[Item]) -> None:
        """Take items back that have no result, to be taken again before all others."""
        self._items.extendleft(reversed(list(items)))

    def __len__(self) -> int:
        """Return how many are left."""
        return len(self._items)


class EachAlone(Generic[Item, Result]):
    """A runner that works on one item after the other.

    Args:
        work: returns the result of an item.
    """

    def __init__(self, work: Callable[[Item], Result]) -> None:
        self._work = work
        self._waiting: deque[Item] = deque()

    def take(self, item: Item) -> None:
        """Take an item, to be begun by `go_on()`."""
        self._waiting.append(item)

    def go_on(self) -> list[tuple[Item, Result]]:
        """Work on the item that has waited longest."""
        if not self._waiting:
            return []
        item = self._waiting.popleft()
        return [(item, self._work(item))]

    def close(self) -> None:
        """Let go of what waits."""
        self._waiting.clear()
