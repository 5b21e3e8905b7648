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


def test_the_lightest_is_evicted() -> None:
    assert choose(Column(0.5), Column(0.2), Column(0.3), Column(1.0)) == 1


def test_the_first_of_equals_is_evicted() -> None:
    assert choose(Column(0.5), Column(0.2), Column(0.2), Column(1.0)) == 1


def test_nothing_is_evicted_that_weighs_as_much_as_the_candidate() -> None:
    assert choose(Column(0.5), Column(0.7), Column(0.5)) == 2


def test_a_masked_column_is_not_considered() -> None:
    assert choose(MASKED, Column(0.5), MASKED, Column(1.0)) == 1


def test_breaking_no_hint_comes_before_weighing_little() -> None:
    assert choose(Column(0.1, broken_hints=1.0), Column(0.9), Column(1.0)) == 1


def test_an_urgent_eviction_costs_more_than_any_broken_hint() -> None:
    assert choose(Column(0.1, urgent=1.0), Column(0.2, broken_hints=1.0), MASKED) == 1


def test_after_one_was_found_what_is_local_is_left_alone() -> None:
    assert choose(Column(0.5), Column(0.2, local=1), Column(1.0)) == 0
    assert choose(Column(0.5, local=1), Column(0.2), Column(1.0)) == 1


def test_a_hint_that_can_be_had_ends_the_search() -> None:
    assert choose(Column(0.5, hint=1), Column(0.2), Column(1.0)) == 0
    assert choose(Column(1.0, hint=1), Column(0.2), Column(1.0)) == 1


def test_an_infinite_weight_is_not_a_number() -> None:
    assert choose(Column(math.nan), Column(0.0), Column(math.nan)) == 1
    assert choose(Column(math.nan), Column(0.0)) == 1


def test_where_something_must_be_evicted_it_may_be_local_or_heavy() -> None:
    assert choose(Column(0.9), Column(0.5, local=1), MASKED) == 1
    assert choose(Column(math.nan), MASKED) == 0


values = st.floats(0, 1) | st.just(math.nan)
columns = st.builds(
    Column,
    values,
    st.integers(0, 1),
    st.integers(0, 1),
    st.integers(0, 3),
    st.floats(0, 1),
    st.floats(0, 1),
)


@given(st.lists(columns, min_size=2, max_size=33).filter(lambda every: any(column.legal for column in every)))
def test_the_choice_is_always_legal(every: list[Column]) -> None:
    assert every[choose(*every)].legal


@pytest.mark.parametrize("number", [1, 7, 64])
def test_the_number_of_columns_does_not_matter(number: int) -> None:
    assert choose(*[MASKED] * number, Column(0.5), Column(1.0)) == number
