"""LLVM's own eviction heuristic, as far as the features show it."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlgo_gym.llvm.eviction_rule import default_eviction


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
    return default_eviction(
        [column.legal for column in columns],
        [column.hint for column in columns],
        [column.local for column in columns],
        [column.broken_hints for column in columns],
        [column.urgent for column in columns],
        [column.weight for column in columns],
    )


@pytest.mark.parametrize(
    ("rule", "choice", "columns"),
    [
        ("the lightest", 1, [Column(0.5), Column(0.2), Column(0.3), Column(1.0)]),
        ("the first of equals", 1, [Column(0.5), Column(0.2), Column(0.2), Column(1.0)]),
        ("none that weighs as much as the candidate", 2, [Column(0.5), Column(0.7), Column(0.5)]),
        ("no masked column", 1, [MASKED, Column(0.5), MASKED, Column(1.0)]),
        ("no broken hint before little weight", 1, [Column(0.1, broken_hints=1.0), Column(0.9), Column(1.0)]),
        ("an urgent one last", 1, [Column(0.1, urgent=1.0), Column(0.2, broken_hints=1.0), MASKED]),
        ("no local one after another", 0, [Column(0.5), Column(0.2, local=1), Column(1.0)]),
        ("a local one before another", 1, [Column(0.5, local=1), Column(0.2), Column(1.0)]),
        ("a hint ends the search", 0, [Column(0.5, hint=1), Column(0.2), Column(1.0)]),
        ("a hint as heavy as the candidate does not", 1, [Column(1.0, hint=1), Column(0.2), Column(1.0)]),
        ("infinite weights", 1, [Column(NAN), Column(0.0), Column(NAN)]),
        ("an infinite weight and a candidate", 1, [Column(NAN), Column(0.0)]),
        ("a local one where one must be evicted", 1, [Column(0.9), Column(0.5, local=1), MASKED]),
        ("an infinite weight where one must be evicted", 0, [Column(NAN), MASKED]),
        *((f"{count} masked ones before", count, [*[MASKED] * count, Column(0.5), Column(1.0)]) for count in (7, 64)),
    ],
)
def test_the_rule_chooses(rule: str, choice: int, columns: list[Column]) -> None:
    assert choose(*columns) == choice, rule


bits, values = st.integers(0, 1), st.floats(0, 1) | st.just(NAN)
some_columns = st.builds(Column, values, bits, bits, bits, st.integers(0, 3).map(float), st.floats(0, 1))


@given(st.lists(some_columns, min_size=2, max_size=33).filter(lambda columns: any(one.legal for one in columns)))
def test_the_choice_is_always_legal(columns: list[Column]) -> None:
    assert columns[choose(*columns)].legal
