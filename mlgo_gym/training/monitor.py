"""Progress of a training run: its stages, their durations and results."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol


class Advance(Protocol):
    """Reports the progress of one stage."""

    def __call__(self, done: int, **values: float) -> None:
        """Report the number of completed steps, and values such as a loss."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a training run: completed and all steps of a stage, and its latest values, such as a loss."""

    stage: str
    done: int
    total: int
    values: Mapping[str, float]


class Monitor:
    """Follows the stages of a training run.

    Args:
        show: Receives the progress after each step.

    Attributes:
        results: Results by kind, in order.
        seconds: Total duration of the stages of each kind.
    """

    def __init__(self, show: Callable[[Progress], None] | None = None) -> None:
        self._show = show
        self.results: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.seconds: dict[str, float] = defaultdict(float)

    def record(self, kind: str, **result: Any) -> None:
        """Add a JSON-able result."""
        self.results[kind].append(result)

    @contextmanager
    def stage(self, kind: str, total: int, *, name: str = "") -> Iterator[Advance]:
        """Run a stage.

        Args:
            kind: Kind of the stage.
            total: Number of its steps.
            name: Name to show. Default: the kind.
        """
        started = time.monotonic()

        def advance(done: int, **values: float) -> None:
            if self._show is not None:
                self._show(Progress(name or kind, done, total, values))

        advance(0)
        try:
            yield advance
        finally:
            self.seconds[kind] += time.monotonic() - started
