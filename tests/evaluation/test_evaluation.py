"""Policies against modules, with the real compiler."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.evaluation import Evaluation, EvaluationResult, evaluate, load_result
from mlgo_gym.evaluation.episode_result import EpisodeResult
from mlgo_gym.evaluation.report import notes
from mlgo_gym.policies import Policy
from mlgo_gym.scheduling import Execution

PARTS: tuple[Literal["train", "test"], ...] = ("train", "test")

POLICIES = ("default", "never", "always", "random", "clang:-mllvm,-inline-threshold=-1000")


def comparable(result: EvaluationResult) -> dict[tuple[str, str], tuple[Any, ...]]:
    return {
        (each.policy, each.module): (each.status, each.metrics, each.reward, each.decisions) for each in result.episodes
    }


@pytest.fixture(scope="module")
def result(corpus: Path) -> EvaluationResult:
    return evaluate("mlgo/Inline-v0", corpus=str(corpus), policies=POLICIES)


def test_each_policy_meets_each_module_with_decisions(result: EvaluationResult) -> None:
    done = {(each.policy, each.module) for each in result.episodes if each.status == "done"}
    assert done == {(policy, module) for policy in POLICIES for module in ("calls", "more/calls")}
    assert result.without_decisions == ["leaf"]
    assert result.failures == []


def test_default_does_not_differ_from_plain_clang_and_never_does(result: EvaluationResult) -> None:
    changes = {summary.policy: summary.changes["text"] for summary in result.summaries()}
    assert changes["default"].equal == 2
    assert result.deviations == []
    assert changes["never"].equal == 0


def test_a_plain_clang_that_never_inlines_equals_the_policy_never(result: EvaluationResult) -> None:
    sizes = {(each.policy, each.module): each.metrics.get("text") for each in result.episodes}
    assert sizes[POLICIES[-1], "calls"] == sizes["never", "calls"] != sizes["default", "calls"]


def test_the_configuration_says_what_was_evaluated(result: EvaluationResult, corpus: Path) -> None:
    configuration = result.configuration
    assert (configuration.modules, configuration.clang, configuration.metric) == (3, "22.1.8", "text")
    assert configuration.levels == {corpus.name: {"Oz": 3}}


def test_processes_find_the_same_as_one(result: EvaluationResult, corpus: Path, nothing_is_left: None) -> None:
    parallel = evaluate("mlgo/Inline-v0", corpus=str(corpus), policies=POLICIES, execution=Execution(2))
    assert comparable(parallel) == comparable(result)


def test_a_second_call_does_only_what_is_left(corpus: Path, tmp_path: Path) -> None:
    def run(*policies: str) -> list[EpisodeResult]:
        seen: list[EpisodeResult] = []
        evaluate("mlgo/Inline-v0", corpus=str(corpus), policies=policies, output=tmp_path, progress=seen.append)
        return seen

    assert len(run("default")) == 3
    assert run("default") == []
    assert {(each.policy, each.module) for each in run("default", "never")} == {
        ("never", "calls"),
        ("never", "more/calls"),
    }
    assert load_result(tmp_path).policies == ("default", "never")


def test_an_evaluation_that_was_left_goes_on(corpus: Path, tmp_path: Path) -> None:
    with Evaluation("mlgo/Inline-v0", corpus=str(corpus), policies=["never"], output=tmp_path) as evaluation:
        first = next(evaluation.run())
        assert evaluation.remaining == 2
    with Evaluation("mlgo/Inline-v0", corpus=str(corpus), policies=["never"], output=tmp_path) as evaluation:
        assert evaluation.result.episodes == (first,)
        assert first not in list(evaluation.run())
    assert len(load_result(tmp_path).episodes) == 3


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            {"environment": "mlgo/RegAllocEvict-v0"},
            "environment: recorded mlgo/Inline-v0, requested mlgo/RegAllocEvict-v0",
        ),
        ({"env_kwargs": {"max_decisions": 3}}, "arguments: recorded {}, requested {'max_decisions': 3}"),
        ({"seed": 1}, "seed: recorded 0, requested 1"),
        ({"limit": 1}, "corpus0, requested 1 modules of "),
    ],
)
def test_results_of_another_configuration_are_not_mixed(
    corpus: Path, tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    arguments: dict[str, Any] = {"environment": "mlgo/Inline-v0", "corpus": str(corpus), "policies": ["default"]}
    Evaluation(**arguments, output=tmp_path).close()
    with pytest.raises(MlgoError, match="cannot be mixed") as caught:
        Evaluation(**{**arguments, **change}, output=tmp_path)
    assert named in str(caught.value)


def test_a_split_takes_its_part_of_several_corpora_and_says_their_levels(
    calls: Path, varied: str, tmp_path: Path
) -> None:
    # By the hashes of their names one is for training, one for testing; equal ones would be on the same side.
    shutil.copy(calls, tmp_path / "calls.bc")
    shutil.copy(Path(varied, "many_calls.bc"), tmp_path / "many_calls2.bc")
    joined = f"{tmp_path},{varied}"
    parts = {part: evaluate("mlgo/Inline-v0", corpus=joined, split=part, policies=["never"]) for part in PARTS}
    modules = {part: {each.module for each in result.episodes} for part, result in parts.items()}
    everything = evaluate("mlgo/Inline-v0", corpus=joined, policies=["never"])
    assert modules["train"] | modules["test"] == {each.module for each in everything.episodes}
    assert not modules["train"] & modules["test"]
    assert f"{tmp_path.name}/many_calls2" in modules["test"]
    assert f"{tmp_path.name}/calls" in modules["train"]
    assert everything.configuration.levels == {tmp_path.name: {"Oz": 2}, Path(varied).name: {"Oz": 5}}
    assert (everything.configuration.split, parts["test"].configuration.split) == (None, "test")


def test_a_split_is_not_mixed_with_the_whole(corpus: Path, tmp_path: Path) -> None:
    Evaluation("mlgo/Inline-v0", corpus=str(corpus), policies=["default"], output=tmp_path).close()
    with pytest.raises(MlgoError, match="split: recorded None, requested train"):
        Evaluation("mlgo/Inline-v0", corpus=str(corpus), split="train", policies=["default"], output=tmp_path)


def test_another_version_of_clang_is_not_mixed(corpus: Path, tmp_path: Path) -> None:
    if shutil.which("clang-19") is None:
        pytest.skip("clang-19 is not installed")
    Evaluation("mlgo/Inline-v0", corpus=str(corpus), policies=["default"], output=tmp_path).close()
    with pytest.raises(MlgoError, match=r"clang: recorded 22\.1\.8, requested 19\.1\.\d"):
        Evaluation(
            "mlgo/Inline-v0",
            corpus=str(corpus),
            policies=["default"],
            output=tmp_path,
            env_kwargs={"clang": "clang-19"},
        )


class Broken:
    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        raise ZeroDivisionError("no idea")


class Illegal:
    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        return 2


def test_a_policy_that_raises_fails_and_the_others_go_on(corpus: Path) -> None:
    policies: dict[str, str | Policy] = {"broken": Broken(), "default": "default"}
    result = evaluate("mlgo/Inline-v0", corpus=str(corpus), policies=policies)
    assert {each.policy for each in result.failures} == {"broken"}
    error = result.failures[0].error
    assert error is not None
    assert error["kind"] == "policy"
    assert error["message"] == "ZeroDivisionError: no idea"
    assert "in act" in error["traceback"]
    assert [summary.modules for summary in result.summaries()] == [0, 2]


def test_a_module_that_clang_cannot_compile_is_a_failure_with_its_words(broken: Path) -> None:
    result = evaluate("mlgo/Inline-v0", corpus=str(broken), policies=["default", "clang:-O2"])
    assert sorted(each.policy for each in result.failures) == ["clang:-O2", "default"]
    for each in result.failures:
        assert each.error is not None
        assert "error" in each.error["stderr"]


LENIENT = {"strict": False}


def test_failures_are_tried_again(corpus: Path, tmp_path: Path) -> None:
    evaluate("mlgo/Inline-v0", corpus=str(corpus), policies={"mine": Broken()}, output=tmp_path, env_kwargs=LENIENT)
    content = (tmp_path / "meta.json").read_text()
    (tmp_path / "meta.json").write_text(content.replace("Broken", "Illegal"))
    result = evaluate(
        "mlgo/Inline-v0", corpus=str(corpus), policies={"mine": Illegal()}, output=tmp_path, env_kwargs=LENIENT
    )
    assert result.failures == []


def test_illegal_actions_are_failures_or_are_replaced_and_counted(corpus: Path) -> None:
    result = evaluate("mlgo/Inline-v0", corpus=str(corpus), policies={"illegal": Illegal()})
    assert {each.error["kind"] for each in result.failures if each.error} == {"ActionError"}
    with pytest.raises(MlgoError, match="expected results of illegal on every module, got 2 failed"):
        result.change("illegal")
    result = evaluate("mlgo/Inline-v0", corpus=str(corpus), policies={"illegal": Illegal()}, env_kwargs=LENIENT)
    assert result.summaries()[0].illegal_actions == sum(each.decisions for each in result.episodes) > 0
    assert "illegal actions, replaced by clang's own choice" in "\n".join(notes(result))


def test_another_metric_is_shown_beside_the_size(corpus: Path) -> None:
    result = evaluate("mlgo/RegAllocPriority-v0", corpus=str(corpus), policies=["default", "random"])
    assert result.metrics == ("spill_cost", "text")
    assert "spill_cost" in str(result)
    assert "text bytes" in str(result)


def test_a_budget_of_decisions_is_handed_on(corpus: Path) -> None:
    result = evaluate("mlgo/Inline-v0", corpus=str(corpus), policies=["never"], env_kwargs={"max_decisions": 2})
    done = [each for each in result.episodes if each.status == "done"]
    assert {each.decisions for each in done} == {2}
    assert all(each.handed_over for each in done)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"policies": []}, "at least one policy"),
        ({"policies": ["nver"]}, "did you mean never"),
        ({"policies": ["first_legal"]}, "decisions on eviction"),
        ({"environment": "mlgo/Nothing-v0"}, "expected one of mlgo/Inline-v0"),
        ({"environment": "CartPole-v1"}, "does not take the arguments"),
        ({"env_kwargs": {"colour": 1}}, "does not take the arguments"),
        ({"env_kwargs": {"scope": "function"}}, "expected scope='module'"),
        ({"env_kwargs": {"compile_options": {"flags": [1j]}}}, "expected flags as a list of strings"),
        ({"limit": 0}, "expected limit ≥ 1, got 0"),
        ({"envs": 0}, "expected envs ≥ 1, got 0"),
    ],
)
def test_what_cannot_be_evaluated_says_why(corpus: Path, arguments: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"environment": "mlgo/Inline-v0", "corpus": str(corpus), "policies": ["default"]}
    with pytest.raises((MlgoError, PolicyError), match=message):
        evaluate(**{**usual, **arguments})
