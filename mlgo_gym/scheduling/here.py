"""Work in this process."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Generic

from mlgo_gym.scheduling.work import Item, Lost, Queue, Result, Runner


class Here(Generic[Item, Result]):
    """Workers that are this process; an exception in the work leaves `run()`.

    Args:
        start: makes the runner, when there is something to do; it is told how many items it is given at once.
        room: how many items at once.
    """

    def __init__(self, start: Callable[[int], Runner[Item, Result]], room: int = 1) -> None:
        self._start = start
        self._room = room
        self._runner: Runner[Item, Result] | None = None

    def run(self, queue: Queue[Item]) -> Generator[tuple[Item, Result | Lost], None, None]:
        """Yield each item of a queue with its result."""
        busy = 0
        whole = False
        try:
            while True:
                while busy < self._room and (item := queue.take()) is not None:
                    if self._runner is None:
                        self._runner = self._start(self._room)
                    self._runner.take(item)
                    busy += 1
                if self._runner is None or not busy:
                    break
                done = self._runner.go_on()
                busy -= len(done)
                yield from done
            whole = True
        finally:
            if not whole:
                self.close()

    def close(self) -> None:
        """End the runner. Idempotent."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()

    def __enter__(self) -> Here[Item, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
