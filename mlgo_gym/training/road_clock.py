"""How long a road has taken, and about how long it still takes."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.storage.cache import write_atomically


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a road is.

    Attributes:
        stage: what is being done, in words.
        done: how far that is.
        total: how far it goes.
        used: the seconds that everything has taken, earlier runs included.
        left: about how many seconds everything still takes; None while a kind of stage has not been met yet.
    """

    stage: str
    done: int
    total: int
    used: float
    left: float | None


Note = Callable[[Progress], None]
"""Called now and then."""


class RoadClock:
    """Measures the stages of a road, and keeps their seconds, so that those of runs that were ended count too.

    Args:
        path: the file of the seconds.
        kinds: the kinds of all stages in their order, such as labels, network, labels, network.
        note: told of every step.
    """

    def __init__(self, path: Path, kinds: Sequence[str], note: Note) -> None:
        self._path = path
        self._kinds = kinds
        self._note = note
        self.seconds: dict[str, float] = json.loads(path.read_bytes()) if path.exists() else {}

    @contextmanager
    def stage(self, number: int, name: str) -> Iterator[Callable[[int, int], None]]:
        """Give a function that takes how far the stage is, and how far it goes.

        Args:
            number: which of the stages it is.
            name: what is done, in words.
        """
        key = f"{number} {self._kinds[number]}"
        before = self.seconds.get(key, 0.0)
        started = time.monotonic()
        first: list[tuple[int, float]] = []

        def advance(done: int, total: int) -> None:
            now = time.monotonic()
            self.seconds[key] = before + now - started
            # What comes before the first step, such as trees before the network's, is not the pace of the steps.
            if not first:
                first.append((done, now))
            steps, seconds = done - first[0][0], now - first[0][1]
            rest = seconds / steps * (total - done) if steps else None
            self._note(Progress(name, done, total, sum(self.seconds.values()), self._left(number, rest)))

        try:
            yield advance
        finally:
            self.seconds[key] = round(before + time.monotonic() - started, 1)
            write_atomically(self._path, (json.dumps(self.seconds) + "\n").encode())

    def _left(self, current: int, rest: float | None) -> float | None:
        """Return about how many seconds are left, where a stage has so many; None is not known."""
        known: dict[str, list[float]] = defaultdict(list)
        for number, kind in enumerate(self._kinds[:current]):
            known[kind].append(self.seconds.get(f"{number} {kind}", 0.0))
        kind = self._kinds[current]
        here = self.seconds[f"{current} {kind}"]
        if rest is not None:
            known[kind].append(here + rest)
        if any(kind not in known for kind in self._kinds[current:]):
            return None
        means = {kind: sum(values) / len(values) for kind, values in known.items()}
        return (max(0.0, means[kind] - here) if rest is None else rest) + sum(
            means[kind] for kind in self._kinds[current + 1 :]
        )
