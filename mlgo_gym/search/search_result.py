"""What a search found in one module."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best decisions that were found, verified by replaying them in a fresh clang.

    Attributes:
        module: the module's name.
        algorithm: the name of the search.
        actions: the decisions, one action each.
        cost: what they cost, by the environment's metric.
        baseline: what the compiler's own heuristic costs.
        compiles: how many compiles the search took, not counting the replay.
        seconds: how long it took.
        verified: whether the replay cost the same.
        error: what went wrong, or None.
        improvements: each compile that cost less than all before it: its number, from 1, and its cost.
        failed: how many of the compiles failed.
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
        """The relative reduction of the cost: 0.02 is 2 % less."""
        return (self.baseline - self.cost) / max(self.baseline, 1.0)

    def cost_after(self, compiles: int) -> float:
        """Return the least cost among the first so many compiles; the baseline where there was none."""
        return min((cost for number, cost in self.improvements if number <= compiles), default=self.baseline)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> SearchResult:
        """Build a result from `to_json()`'s data.

        Raises:
            TypeError, KeyError, ValueError: it is of another form.
        """
        improvements = tuple((number, cost) for number, cost in value["improvements"])
        return cls(**{**value, "actions": tuple(value["actions"]), "improvements": improvements})
