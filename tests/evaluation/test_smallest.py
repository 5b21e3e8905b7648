"""Several policies as one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.result import EvaluationResult
from mlgo_gym.evaluation.smallest import with_smallest
from tests.evaluation.conftest import MakeResult


@pytest.fixture
def result(configuration: Configuration, make_result: MakeResult) -> EvaluationResult:
    configuration = replace(configuration, policies=dict.fromkeys(("ours", "default"), ""))
    return EvaluationResult(
        configuration,
        (
            make_result("ours", "a", metrics={"text": (300, 400)}, seconds=2.0),
            make_result("default", "a", metrics={"text": (400, 400)}, seconds=1.0),
            make_result("ours", "b", metrics={"text": (500, 400)}),
            make_result("default", "b", metrics={"text": (410, 400)}),
            make_result("ours", "c", status="failed", metrics={}),
            make_result("default", "c", metrics={"text": (100, 100)}),
            make_result("ours", "d", status="no-decisions", metrics={}),
            make_result("ours", "e", status="failed", metrics={}),
            make_result("default", "e", status="failed", metrics={}),
        ),
    )


def test_of_each_module_the_smallest_object_counts_and_default_is_clang_alone(result: EvaluationResult) -> None:
    found = with_smallest(result)
    assert found.policies == ("ours", "default", "smallest of 2")
    assert found.values("smallest of 2", "text") == {"a": 300, "b": 400, "c": 100}
    summary = found.summaries()[-1]
    change = summary.changes["text"]
    assert (change.better, change.equal, change.worse, summary.failures) == (1, 2, 0, 1)
    assert found.without_decisions == ["d"]
    assert found.episodes[: len(result.episodes)] == result.episodes


def test_it_takes_the_time_of_all_compiles(result: EvaluationResult) -> None:
    assert next(each.seconds for each in with_smallest(result).episodes if each.policy == "smallest of 2") == 3.0


def test_one_policy_has_no_smallest_of_several(result: EvaluationResult) -> None:
    one = replace(result, episodes=tuple(each for each in result.episodes if each.policy == "ours"))
    with pytest.raises(MlgoError, match="two or more policies, got 1"):
        with_smallest(one)


def test_what_is_not_finished_has_no_smallest(result: EvaluationResult) -> None:
    with pytest.raises(MlgoError, match="2 policies on e, got 1; finish the evaluation first"):
        with_smallest(replace(result, episodes=result.episodes[:-1]))
