"""What episodes add up to."""

from __future__ import annotations

import math

import pytest

from mlgo_gym.evaluation.intervals import mean_interval, total_interval
from mlgo_gym.evaluation.summary import Change, summarize
from tests.evaluation.conftest import MakeResult

MIXED = Change(((90, 100), (220, 200), (50, 50), (0, 0)))


def test_the_total_is_that_of_the_sums() -> None:
    assert (MIXED.value, MIXED.baseline) == (360, 350)
    assert MIXED.total == pytest.approx(10 / 350)


def test_the_mean_is_geometric() -> None:
    assert MIXED.mean == pytest.approx((91 / 101 * 221 / 201) ** (1 / 4) - 1)
    assert Change(((199, 399), (399, 199))).mean == pytest.approx(0)


def test_modules_are_better_worse_or_equal() -> None:
    assert (MIXED.better, MIXED.worse, MIXED.equal) == (1, 1, 2)


def test_nothing_adds_up_to_no_change() -> None:
    nothing = Change(())
    assert (nothing.total, nothing.mean, nothing.equal) == (0, 0, 0)
    assert Change(((5, 0),)).total == 0


def test_only_modules_with_something_to_decide_count(make_result: MakeResult) -> None:
    episodes = [
        make_result("default", "a", 100, 100),
        make_result("clang:-x", "a", 80, 100, seconds=1.5),
        make_result("default", "empty", status="no-decisions", measures={}),
        make_result("clang:-x", "empty", 1, 1000),
        make_result("clang:-x", "b", status="failed", measures={}, seconds=0.5),
    ]
    summary = summarize("clang:-x", episodes, ["text_size"])
    assert (summary.modules, summary.failures, summary.seconds) == (1, 1, 2.0)
    assert summary.changes["text_size"].pairs == ((80, 100),)


def test_the_intervals_hold_the_change_and_are_the_same_each_time() -> None:
    change = Change(tuple((90 + 3 * number % 17, 100) for number in range(20)))
    low, high = mean_interval(change) or (math.nan, math.nan)
    assert low < change.mean < high < 0
    assert mean_interval(change) == (low, high)
    low, high = total_interval(change) or (math.nan, math.nan)
    assert low < change.total < high < 0


def test_the_intervals_pair_a_module_with_itself() -> None:
    """Sizes differ a thousandfold between modules, and each is 1 % smaller: there is nothing to be unsure of."""
    change = Change(tuple((99 * 10**power, 100 * 10**power) for power in range(3, 7)))
    low, high = total_interval(change) or (math.nan, math.nan)
    assert low == pytest.approx(-0.01)
    assert high == pytest.approx(-0.01)


def test_a_single_module_and_equal_ones_need_no_luck() -> None:
    assert mean_interval(Change(((90, 100),))) is None
    assert mean_interval(Change(())) is None
    assert total_interval(Change(())) is None
    assert mean_interval(Change(((100, 100),) * 5)) == (0, 0)
