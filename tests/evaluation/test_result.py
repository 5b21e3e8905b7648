"""One number out of an evaluation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.result import EvaluationResult
from tests.evaluation.conftest import MakeResult


@pytest.fixture
def result(configuration: Configuration, make_result: MakeResult) -> EvaluationResult:
    configuration = replace(
        configuration, metric="spill_cost", policies=dict.fromkeys(("ours", "broken", "absent"), "")
    )
    return EvaluationResult(
        configuration,
        (
            make_result("ours", "a", metrics={"text": (199, 399), "spill_cost": (0, 1)}),
            make_result("ours", "b", metrics={"text": (399, 399), "spill_cost": (1, 1)}, project="q"),
            make_result("broken", "a", status="failed", metrics={}),
        ),
    )


def test_the_change_of_a_policy_is_one_number(result: EvaluationResult) -> None:
    assert result.change("ours") == pytest.approx(0.5**0.5 - 1)
    assert result.change("ours", metric="text") == pytest.approx(0.5**0.5 - 1)
    assert result.change("ours", project="p") == pytest.approx(-0.5)
    assert result.change("ours", project="q") == 0.0
    assert result.change("ours") == result.summaries()[0].changes[result.metrics[0]].mean


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policy": "absent"}, r"a policy with results \(ours, broken\), got 'absent'$"),
        ({"policy": "ours", "metric": "speed"}, r"a metric with results \(spill_cost, text\), got 'speed'$"),
        ({"policy": "ours", "project": "zstd"}, r"a project with results \(None, p, q\), got 'zstd'$"),
        ({"policy": "broken"}, "expected results of broken on every module, got 1 failed"),
    ],
    ids=str,
)
def test_what_was_not_measured_has_no_number(result: EvaluationResult, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(MlgoError, match=message):
        result.change(**arguments)
