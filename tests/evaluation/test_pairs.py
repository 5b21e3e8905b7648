"""Two policies against each other."""

from __future__ import annotations

import pytest
from scipy import stats

from mlgo_gym.evaluation.pairs import pair_of
from mlgo_gym.evaluation.summary import Change, extremes

PROJECTS = dict.fromkeys("abcde", "p")


def test_only_modules_of_both_are_compared() -> None:
    pair = pair_of("x", "y", ({"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 4, "d": 5}), PROJECTS)
    assert pair.modules == ("b", "c")
    assert (pair.change.better, pair.change.equal, pair.change.worse) == (1, 1, 0)


def test_the_probability_counts_a_tie_half_and_is_the_mann_whitney_statistic_of_each_module() -> None:
    ours, theirs = {"a": 1, "b": 2, "c": 5, "d": 3}, {"a": 2, "b": 2, "c": 4, "d": 4}
    pair = pair_of("x", "y", (ours, theirs), PROJECTS)
    assert pair.probability.value == pytest.approx(2.5 / 4)
    statistics = [stats.mannwhitneyu([theirs[name]], [ours[name]]).statistic for name in ours]
    assert pair.probability.value == pytest.approx(sum(statistics) / 4)
    other = pair_of("y", "x", (theirs, ours), PROJECTS)
    assert other.probability.value == pytest.approx(1 - pair.probability.value)


def test_the_probability_has_an_interval() -> None:
    names = [f"m{number}" for number in range(40)]
    ours = {name: 90 + number % 17 for number, name in enumerate(names)}
    pair = pair_of(
        "x", "y", (ours, dict.fromkeys(names, 100)), {name: str(number % 5) for number, name in enumerate(names)}
    )
    low, high = pair.probability.interval or (0, 0)
    assert 0.5 < low < pair.probability.value < high < 1
    assert pair.to_json()["probability"] == {"value": pair.probability.value, "low": low, "high": high}


def test_the_largest_changes_come_first_and_equal_modules_never() -> None:
    names = tuple("abcde")
    change = Change(((90, 100), (50, 100), (100, 100), (110, 100), (300, 100)))
    best, worst = extremes(names, change)
    assert [row.module for row in best] == ["b", "a"]
    assert [row.module for row in worst] == ["e", "d"]
    assert [row.module for row in extremes(names, change, limit=1)[1]] == ["e"]
    assert best[0].change == pytest.approx(51 / 101 - 1)
