"""Progress of a training run: its stages, their durations and results, and curves for TensorBoard."""

import importlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
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
        curves: Folder for event files of TensorBoard. Without TensorBoard nothing is written.

    Attributes:
        results: Results by kind, in order.
        seconds: Total duration of the stages of each kind.
    """

    def __init__(self, show: Callable[[Progress], None] | None = None, curves: Path | None = None) -> None:
        self._show, self._curves = show, curves
        self._writer: Any = None
        self.results: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.seconds: dict[str, float] = defaultdict(float)

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def record(self, kind: str, **result: Any) -> None:
        """Add a JSON-able result."""
        self.results[kind].append(result)

    @contextmanager
    def stage(self, kind: str, total: int, *, name: str = "") -> Iterator[Advance]:
        """Run a stage.

        Args:
            kind: Kind of the stage, part of the names of its curves.
            total: Number of its steps.
            name: Name to show. Default: the kind.
        """
        started = time.monotonic()

        def advance(done: int, **values: float) -> None:
            for curve, value in values.items():
                self._write(f"{kind}/{curve}", value, done)
            if self._show is not None:
                self._show(Progress(name or kind, done, total, values))

        advance(0)
        try:
            yield advance
        finally:
            self.seconds[kind] += time.monotonic() - started

    def _write(self, curve: str, value: float, step: int) -> None:
        if self._curves is not None and self._writer is None:
            try:
                self._writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter(str(self._curves))
            except ImportError:
                self._curves = None
        if self._writer is not None:
            self._writer.add_scalar(curve, value, step)
