"""The order in which policies meet modules."""

from __future__ import annotations

from collections.abc import Sequence

from mlgo_gym.evaluation.episode_result import EpisodeResult
from mlgo_gym.evaluation.schedule import Schedule
from tests.evaluation.conftest import MakeResult

SIZES = {"small": 1, "large": 9, "medium": 5}


def schedule(results: Sequence[EpisodeResult] = ()) -> Schedule:
    return Schedule(["first", "second", "third"], SIZES, SIZES.__getitem__, lambda name: f"of {name}", results)


def drain(schedule: Schedule) -> list[tuple[str, str]]:
    taken = []
    while (assignment := schedule.take()) is not None:
        taken.append((assignment.policy, assignment.module))
    return taken


def test_the_first_policy_meets_all_modules_before_any_other_does() -> None:
    assert drain(schedule()) == [
        ("first", "large"), ("first", "medium"), ("first", "small"),
        ("second", "large"), ("third", "large"),
        ("second", "medium"), ("third", "medium"),
        ("second", "small"), ("third", "small"),
    ]  # fmt: skip


def test_what_is_done_is_not_scheduled_and_failures_are(make_result: MakeResult) -> None:
    results = [
        make_result("first", "large"),
        make_result("second", "small", status="failed"),
        make_result("first", "medium", status="no-decisions"),
    ]
    assert drain(schedule(results)) == [
        ("first", "small"), ("second", "large"), ("third", "large"), ("second", "small"), ("third", "small")
    ]  # fmt: skip


def test_a_module_without_decisions_is_taken_off(make_result: MakeResult) -> None:
    plan = schedule()
    assert plan.take() == ("first", "large", "of large")
    plan.finish(make_result("first", "large", status="no-decisions"))
    assert {module for _, module in drain(plan)} == {"medium", "small"}


def test_what_runs_is_unfinished_too(make_result: MakeResult) -> None:
    plan = schedule()
    plan.take()
    assert (len(plan), plan.unfinished) == (8, 9)
    plan.finish(make_result("first", "large"))
    assert (len(plan), plan.unfinished) == (8, 8)
