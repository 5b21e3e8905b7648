"""The result of a search of one module."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best actions found in a module, verified by a replay.

    Attributes:
        module: Name of the module.
        algorithm: Name of the algorithm.
        actions: Action of each decision.
        cost: Cost of the actions by the environment's metric.
        baseline: Cost of clang's own heuristic.
        compiles: Number of compiles, without the replay.
        seconds: Duration of the search, without the replay.
        verified: Whether the replay had the same cost.
        error: Message of the error that ended the search; None without one.
        improvements: Index (from 1) and cost of each compile that cost less than all before.
        failed: Number of failed compiles.
    """

    module: str
    algorithm: str
    actions: tuple[int, ...]
    cost: float
    baseline: float
    compiles: int
    seconds: float
    verified: bool
    error: str | None = None
    improvements: tuple[tuple[int, float], ...] = ()
    failed: int = 0

    @property
    def reduction(self) -> float:
        """Relative reduction of the cost: 0.02 is 2 % less."""
        return (self.baseline - self.cost) / max(self.baseline, 1.0)

    def cost_after(self, compiles: int) -> float:
        """Return the least cost within a number of compiles; the baseline if none improved."""
        return min((cost for index, cost in self.improvements if index <= compiles), default=self.baseline)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> SearchResult:
        """Return the result of `to_json()`'s data; other data raise a TypeError, KeyError or ValueError."""
        improvements = tuple((index, cost) for index, cost in value["improvements"])
        return cls(**{**value, "actions": tuple(value["actions"]), "improvements": improvements})
