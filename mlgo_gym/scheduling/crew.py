"""Several workers that share a queue: who gets what, who has died, and who is slow; the same wherever they are."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Generator, Iterable, Sequence
from statistics import median
from typing import Generic

from typing_extensions import Self

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling.work import Item, Lost, Queue, Result

_GOODBYE_SECONDS = 5.0

SLOW_FACTOR = 3.0
"""An item is late when it takes so many times as long as half of the others did."""

SLOW_SECONDS = 5.0
"""And when it takes at least so long, in seconds."""

_LOOK_SECONDS = 0.5
"""How often somebody looks for late items while workers have nothing to do."""

_STILLBORN = 3
"""So many workers may end one after the other before their first item, where items are begun again."""


class Gone(Exception):  # noqa: N818 - no error: it is what may become of a worker, and `Crew` answers it
    """A worker has ended: how, in words, and its exit status."""

    def __init__(self, how: str, status: int) -> None:
        super().__init__(how)
        self.how = how
        self.status = status


class Member(ABC, Generic[Item, Result]):
    """One of the workers, and what it is busy with.

    Args:
        room: how many items it is given at once.

    Attributes:
        room: as given.
        ready: whether it can be given items.
        items: what it works on, and when it was given it, on the monotonic clock.
        in_vain: what it works on too, and somebody else has done.
        pace: the seconds that it takes for an item, as it says itself; 0 where it does not.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.ready = False
        self.items: dict[Item, float] = {}
        self.in_vain: set[Item] = set()
        self.pace = 0.0

    @abstractmethod
    def send(self, items: Sequence[Item]) -> None:
        """Send it items, none to have it go on with what it has; it answers with a message."""

    @abstractmethod
    def receive(self) -> Sequence[tuple[Item, Result]]:
        """Return the message that `Crew.wait()` says is there: the results of some items; none says that it is ready.

        Raises:
            Gone: it has ended.
            MlgoError: it cannot work here, and no other can.
        """

    @abstractmethod
    def end(self, patience: float) -> None:
        """End it: by itself within so many seconds, or by force."""

    def hand(self, items: Sequence[Item]) -> None:
        """Give it items, none to have it go on."""
        now = time.monotonic()
        self.items.update((item, now) for item in items)
        self.send(items)


class Crew(ABC, Generic[Item, Result]):
    """Workers that are hired when there is something to do, and share a queue.

    A worker that dies at an item makes this item `Lost`, or has it begun again elsewhere as often as is wanted, and
    another worker takes its place. If it was busy with several they are all begun anew, each alone, so that it shows
    which of them was to blame.

    Args:
        jobs: the most workers.
        room: how many items each is given at once.
        again: how often an item is begun again that a worker died at alone.
        copies: whether an item that is late, when nothing else waits, is given to a second worker too; the first result
            counts, and who still works on it then is ended.
        message_seconds: what a message costs this process. Where there are so many workers that their messages would
            keep it busy, each is given more items than it has room for, and tells the results of several at once.
    """

    def __init__(
        self, jobs: int, room: int, *, again: int = 0, copies: bool = False, message_seconds: float = 0.0
    ) -> None:
        self._jobs = jobs
        self._room = room
        self._again = again
        self._copies = copies
        self._members: list[Member[Item, Result]] = []
        self._deaths: Counter[Item] = Counter()
        self._copied: set[Item] = set()
        self._suspects: set[Item] = set()
        self._message_seconds = message_seconds
        self._paces: deque[float] = deque(maxlen=1000)
        self._stillborn = 0
        self._seconds: deque[float] = deque(maxlen=1000)

    @property
    def interval(self) -> float:
        """How long a worker may keep results to itself, in seconds."""
        return self._message_seconds * len(self._members)

    @abstractmethod
    def hire(self, room: int) -> Member[Item, Result]:
        """Return a new worker, which says by a message when it is ready.

        Raises:
            MlgoError: it cannot be started.
        """

    @abstractmethod
    def wait(self, members: Sequence[Member[Item, Result]], seconds: float | None) -> Iterable[Member[Item, Result]]:
        """Return which of some workers have a message or have ended, as soon as one has, or none after some time."""

    def run(self, queue: Queue[Item]) -> Generator[tuple[Item, Result | Lost], None, None]:
        """Yield each item of a queue with its result as soon as it is there.

        When the iteration is left before its end, all workers and their compilers are ended at once.

        Raises:
            MlgoError: a worker cannot start.
        """
        whole = False
        try:
            yield from self._run(queue)
            whole = True
        finally:
            if not whole:
                self._end(0.0)

    def _run(self, queue: Queue[Item]) -> Generator[tuple[Item, Result | Lost], None, None]:
        members = self._members
        for _ in range(min(self._jobs - len(members), len(queue) - len(members))):
            members.append(self.hire(self._room))
        for member in members:
            if member.ready:
                self._feed(member, queue)
        while busy := self._waited_for(queue):
            idle = self._copies and not len(queue) and any(member.ready and not member.items for member in members)
            for member in self.wait(busy, _LOOK_SECONDS if idle else None):
                yield from self._hear(member, queue)
            if self._copies:
                self._copy_late_items(queue)

    def _waited_for(self, queue: Queue[Item]) -> list[Member[Item, Result]]:
        """Return the workers to wait for: where copies are made, no new one that there is nothing left for."""
        working = [member for member in self._members if member.items]
        if self._copies and not working and not len(queue):
            return []
        return [member for member in self._members if member.items or not member.ready]

    def _hear(self, member: Member[Item, Result], queue: Queue[Item]) -> Generator[tuple[Item, Result | Lost]]:
        """Take in what a worker says, or that it has died."""
        if member not in self._members:
            return  # it was ended while its message was on its way
        try:
            results = member.receive()
        except Gone as gone:
            yield from self._bury(member, gone, queue)
            return
        member.ready = True
        self._stillborn = 0
        if member.pace:
            self._paces.append(member.pace)
        now = time.monotonic()
        for item, result in results:
            member.in_vain.discard(item)
            started = member.items.pop(item, None)
            if started is None:
                continue
            self._seconds.append(now - started)
            self._deaths.pop(item, None)
            self._suspects.discard(item)
            if item in self._copied:
                self._copied.discard(item)
                self._dismiss_those_at(item)
            yield item, result
        self._feed(member, queue)

    def _bury(
        self, member: Member[Item, Result], gone: Gone, queue: Queue[Item]
    ) -> Generator[tuple[Item, Result | Lost]]:
        self._members.remove(member)
        member.end(0.0)
        # What another one works on too is not lost, and can be given to a third.
        alone = [item for item in member.items if not self._holders(item)]
        self._copied.difference_update(member.items)
        if not member.ready or not member.items:
            self._stillborn += 1
            if not self._again or self._stillborn > _STILLBORN:
                raise MlgoError(
                    f"a worker process ended with {gone.how} before its first item; look at what it wrote, try jobs=1, "
                    "and in a script start it below `if __name__ == '__main__':`"
                )
        if len(member.items) > 1:
            queue.put_back(alone)
            self._suspects.update(alone)
        else:
            for item in alone:
                self._deaths[item] += 1
                if self._deaths[item] > self._again:
                    yield item, Lost(gone.how, gone.status)
                else:
                    queue.put_back([item])
                    self._suspects.add(item)
        if len(queue):
            self._members.append(self.hire(self._room))
            for other in self._members:
                if other.ready and not other.items:
                    self._feed(other, queue)

    def _feed(self, member: Member[Item, Result], queue: Queue[Item]) -> None:
        """Give a worker as much as it has room for, and no more than its share of what is left."""
        wanted = member.room - len(member.items) - len(member.in_vain)
        share = min(wanted, -(-len(queue) // len(self._members)))
        if self._paces:
            # With the last of them nobody is to be left alone.
            most = len(queue) // (2 * len(self._members))
            share = max(share, min(wanted + int(self.interval / median(self._paces)), most))
        taken: list[Item] = []
        while len(taken) < share and (item := queue.take()) is not None:
            if item in self._suspects:
                if taken or member.items:
                    queue.put_back([item])
                else:
                    taken.append(item)
                break
            taken.append(item)
        # It waits to hear what comes next, unless it has nothing to do.
        if taken or member.items:
            member.hand(taken)

    def _holders(self, item: Item) -> list[Member[Item, Result]]:
        return [member for member in self._members if item in member.items]

    def _copy_late_items(self, queue: Queue[Item]) -> None:
        """Give what is late to workers that have nothing to do, once."""
        idle = [member for member in self._members if member.ready and not member.items]
        if len(queue) or not idle or not self._seconds:
            return
        now = time.monotonic()
        late = max(SLOW_FACTOR * median(self._seconds), SLOW_SECONDS)
        for member in list(self._members):
            for item, started in list(member.items.items()):
                if idle and now - started > late and item not in self._copied:
                    self._copied.add(item)
                    idle.pop().hand([item])

    def _dismiss_those_at(self, item: Item) -> None:
        """Let nobody work any longer on an item that has its result: it is their only one, so they are ended."""
        for member in self._holders(item):
            del member.items[item]
            member.in_vain.add(item)
            if not member.items:
                self._members.remove(member)
                member.end(0.0)

    def close(self) -> None:
        """End all workers. Idempotent."""
        self._end(_GOODBYE_SECONDS)

    def _end(self, patience: float) -> None:
        members, self._members = self._members, []
        for member in members:
            member.end(patience if member.ready and not member.items else 0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
