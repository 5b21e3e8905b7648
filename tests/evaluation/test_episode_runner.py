"""Episodes in several processes have the results of episodes in one; one that fails fails alone."""

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mlgo_gym import EvaluationResult, Execution, evaluate
from mlgo_gym.evaluation.report import notes

FAULTY = __file__  # programs that cannot import the tests load this file
CLANG = "clang:-mllvm,-inline-threshold=-1000"
INLINE = "mlgo/Inline-v0"


def everything(result: EvaluationResult) -> dict[tuple[str, str], tuple[Any, ...]]:
    """Return all results except times."""
    found = {}
    for episode in result.episodes:
        if episode.module in result.without_decisions:
            continue  # a plain compile may be running when that turns out
        assert {type(value) for pair in episode.metrics.values() for value in pair} <= {int, float}
        error = episode.error or {}
        found[episode.policy, episode.module] = (
            episode.status, episode.metrics, episode.reward, episode.decisions, episode.handed_over,
            episode.illegal_actions, episode.actions, error.get("kind"), error.get("exit_status"),
        )  # fmt: skip
    return found


def test_results_and_actions_are_the_same(varied: str, callee_network: str) -> None:
    policies = ["default", "random", "threshold:20", callee_network, CLANG]
    alone, together = (
        evaluate(INLINE, policies=policies, corpus=varied, seed=3, execution=Execution(jobs)) for jobs in (1, 2)
    )
    assert everything(together) == everything(alone)
    assert together.without_decisions == alone.without_decisions
    assert sum(episode.decisions for episode in alone.episodes) > 20
    assert not alone.failures


def test_a_budget_is_handed_on(varied: str) -> None:
    result = evaluate(INLINE, corpus=varied, policies=["random"], env_kwargs={"max_decisions": 2})
    decided = [episode for episode in result.episodes if episode.status == "done"]
    assert {episode.decisions for episode in decided} == {2}
    assert any(episode.handed_over for episode in decided)


class Broken:
    """Fails at one decision of one module."""

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        if info["module"] == "calls" and info["decision_index"] == 2:
            raise ZeroDivisionError("no idea")
        return 0


def test_a_policy_that_raises_fails_that_episode_alone(varied: str) -> None:
    result = evaluate(INLINE, corpus=varied, policies={"mine": Broken(), "never": "never"})
    [failure] = result.failures
    assert (failure.policy, failure.module) == ("mine", "calls")
    assert failure.error is not None
    assert (failure.error["kind"], failure.error["message"]) == ("policy", "ZeroDivisionError: no idea")
    assert "in act" in failure.error["traceback"]


class Illegal:
    """Takes actions that do not exist."""

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        return 7 if info["decision_index"] % 2 else -1


@pytest.mark.parametrize("strict", [False, True])
def test_illegal_actions_are_counted_or_fail(strict: bool, varied: str) -> None:
    arguments: dict[str, Any] = {"corpus": varied, "env_kwargs": {"strict": strict}}
    policies = {"illegal": f"{__file__}:Illegal", "never": "never"}
    alone = evaluate(INLINE, policies=policies, **arguments)
    assert bool(alone.failures) is strict
    illegal = [episode for episode in alone.episodes if episode.policy == "illegal" and episode.status == "done"]
    assert all(episode.illegal_actions == episode.decisions > 0 for episode in illegal)
    assert bool(illegal) is not strict
    assert ("illegal actions, replaced by clang's own choice" in "\n".join(notes(alone))) is not strict


def test_a_module_that_is_broken_fails_alone(broken: Path, calls: Path, tmp_path: Path, nothing_is_left: None) -> None:
    for number in range(2):
        (tmp_path / f"calls{number}.bc").symlink_to(calls)
        (tmp_path / f"broken{number}.bc").symlink_to(broken)
    arguments: dict[str, Any] = {"corpus": str(tmp_path), "policies": ["default", "never", CLANG]}
    alone = evaluate(INLINE, **arguments)
    assert {failure.module for failure in alone.failures} == {"broken0", "broken1"}
    errors = [failure.error or {} for failure in alone.failures]
    assert all(error["kind"] == "exit" and "error" in error["stderr"] for error in errors)


class Deadly:
    """Ends its process at the first decision of one module."""

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        if info["module"] == "calls":
            os.kill(os.getpid(), signal.SIGKILL)
        return 0


class Endless:
    """Says by a file that it was asked about one module, and never answers."""

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:
        if info["module"] == "calls":
            Path(os.environ["MLGO_TEST_ASKED"]).touch()
            signal.pause()
        return 0


def test_a_worker_that_dies_is_replaced(varied: str, nothing_is_left: None) -> None:
    result = evaluate(INLINE, corpus=varied, policies=[f"{FAULTY}:Deadly"], execution=Execution(2))
    [failure] = result.failures
    message = "the worker process died: signal 9 (SIGKILL)"
    assert failure.module == "calls"
    assert failure.error == {"kind": "worker", "message": message, "exit_status": -9}
    assert result.without_decisions == ["leaf"]
    assert result.summaries()[0].modules == 3
