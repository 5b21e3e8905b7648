"""LLVM's own eviction heuristic, as far as the features show it."""

import math
from typing import NamedTuple

from mlgo_gym.llvm.advisors import default_eviction


class Column(NamedTuple):
    """The features of one column."""

    weight: float
    legal: int = 1
    hint: int = 0
    local: int = 0
    broken_hints: float = 0.0
    urgent: float = 0.0


MASKED = Column(0.0, legal=0)
NAN = math.nan  # an infinite weight


def choose(*columns: Column) -> int:
    """Return the choice among columns of which the last is the candidate."""
    names = ("legal", "hint", "local", "broken_hints", "urgent", "weight")
    return default_eviction(*([getattr(column, name) for column in columns] for name in names))


def test_the_rule_evicts_the_lightest_that_breaks_the_fewest_hints() -> None:
    assert choose(Column(0.5), Column(0.2), Column(0.3), Column(1.0)) == 1
    assert choose(Column(0.5), Column(0.2), Column(0.2), Column(1.0)) == 1, "the first of equals"
    assert choose(Column(0.5), Column(0.7), Column(0.5)) == 2, "none that weighs as much as the candidate"
    assert choose(*[MASKED] * 64, Column(0.5), Column(1.0)) == 64
    assert choose(Column(0.1, broken_hints=1.0), Column(0.9), Column(1.0)) == 1
    assert choose(Column(0.1, urgent=1.0), Column(0.2, broken_hints=1.0), MASKED) == 1
    # Local ranges and hints end the search.
    assert choose(Column(0.5), Column(0.2, local=1), Column(1.0)) == 0
    assert choose(Column(0.5, local=1), Column(0.2), Column(1.0)) == 1
    assert choose(Column(0.5, hint=1), Column(0.2), Column(1.0)) == 0
    assert choose(Column(1.0, hint=1), Column(0.2), Column(1.0)) == 1
    # An infinite weight is evicted only where one must be.
    assert choose(Column(NAN), Column(0.0), Column(NAN)) == choose(Column(NAN), Column(0.0)) == 1
    assert choose(Column(0.9), Column(0.5, local=1), MASKED) == 1
    assert choose(Column(NAN), MASKED) == 0
