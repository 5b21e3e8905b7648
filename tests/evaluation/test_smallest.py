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
            make_result("ours", "a", measures={"text_size": (300, 400)}, seconds=2.0),
            make_result("default", "a", measures={"text_size": (400, 400)}, seconds=1.0),
            make_result("ours", "b", measures={"text_size": (500, 400)}),
            make_result("default", "b", measures={"text_size": (410, 400)}),
            make_result("ours", "c", status="failed", measures={}),
            make_result("default", "c", measures={"text_size": (100, 100)}),
            make_result("ours", "d", status="no-decisions", measures={}),
            make_result("ours", "e", status="failed", measures={}),
            make_result("default", "e", status="failed", measures={}),
        ),
    )


def test_of_each_module_the_smallest_object_counts_and_default_is_clang_alone(result: EvaluationResult) -> None:
    found = with_smallest(result)
    assert found.policies == ("ours", "default", "smallest of 2")
    assert found.values("smallest of 2", "text_size") == {"a": 300, "b": 400, "c": 100}
    summary = found.summaries()[-1]
    change = summary.changes["text_size"]
    assert (change.better, change.equal, change.worse, summary.failures) == (1, 2, 0, 1)
    assert found.without_decisions == ["d"]
    assert found.episodes[: len(result.episodes)] == result.episodes


def test_it_takes_the_time_of_all_compiles(result: EvaluationResult) -> None:
    assert next(each.seconds for each in with_smallest(result).episodes if each.policy == "smallest of 2") == 3.0


def test_one_policy_has_no_smallest_of_several(result: EvaluationResult) -> None:
    one = replace(result, episodes=tuple(each for each in result.episodes if each.policy == "ours"))
    with pytest.raises(MlgoError, match="of several policies was asked for, and the results have 1"):
        with_smallest(one)


def test_what_is_not_finished_has_no_smallest(result: EvaluationResult) -> None:
    with pytest.raises(MlgoError, match="e has the results of 1: finish the evaluation first"):
        with_smallest(replace(result, episodes=result.episodes[:-1]))
