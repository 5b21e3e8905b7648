"""Where a policy wins most and where it loses most, by the names of the modules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mlgo_gym.evaluation.summary import Change

MOST = 10
"""How many are named of each."""


@dataclass(frozen=True, slots=True)
class Extreme:
    """A module on which a policy does better or worse than what it is compared with.

    Attributes:
        module: its name.
        value: the policy's value.
        baseline: that of what it is compared with.
    """

    module: str
    value: float
    baseline: float

    @property
    def change(self) -> float:
        """The relative change: -0.02 is 2 % less."""
        return math.expm1(math.log((1.0 + self.value) / (1.0 + self.baseline)))

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        return {**asdict(self), "change": self.change}


def best(modules: Sequence[str], change: Change, most: int = MOST) -> list[Extreme]:
    """Return the modules that shrank most, relatively, the most first; none that did not.

    Args:
        modules: the names of the modules of `change`.
        change: what became of them.
        most: how many at most.
    """
    shrank = (row for row in _rows(modules, change) if row.value < row.baseline)
    return sorted(shrank, key=lambda row: (row.change, row.module))[:most]


def worst(modules: Sequence[str], change: Change, most: int = MOST) -> list[Extreme]:
    """Return the modules that grew most, relatively, the most first; none that did not.

    Args:
        modules: the names of the modules of `change`.
        change: what became of them.
        most: how many at most.
    """
    grew = (row for row in _rows(modules, change) if row.value > row.baseline)
    return sorted(grew, key=lambda row: (-row.change, row.module))[:most]


def _rows(modules: Sequence[str], change: Change) -> list[Extreme]:
    return [Extreme(name, *pair) for name, pair in zip(modules, change.pairs, strict=True)]
