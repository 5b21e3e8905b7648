"""Summaries of episodes."""

from __future__ import annotations

import pytest

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
        make_result("default", "empty", status="no-decisions", metrics={}),
        make_result("clang:-x", "empty", 1, 1000),
        make_result("clang:-x", "b", status="failed", metrics={}, seconds=0.5),
    ]
    summary = summarize("clang:-x", episodes, ["text"])
    assert (summary.modules, summary.failures, summary.seconds) == (1, 1, 2.0)
    assert summary.changes["text"].pairs == ((80, 100),)


def test_the_time_of_a_policy_covers_its_timed_decisions(make_result: MakeResult) -> None:
    episodes = [
        make_result("threshold:5", "a", 80, 100, decisions=30, policy_seconds=0.002),
        make_result("threshold:5", "b", 80, 100, decisions=10, policy_seconds=0.001),
        make_result("threshold:5", "c", 80, 100, decisions=70),  # its time was not measured
    ]
    summary = summarize("threshold:5", episodes, ["text"])
    assert summary.decisions == 40
    assert summary.policy_seconds == pytest.approx(0.003)
