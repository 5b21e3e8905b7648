"""The record of a running episode, from which its result is made."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym

from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.evaluation.actions import pack_actions
from mlgo_gym.evaluation.episode_result import DONE, FAILED, EpisodeResult
from mlgo_gym.policies import Policy
from mlgo_gym.tasks.measurement import Measurement
from mlgo_gym.tasks.task import Task

_BASELINE = "baseline_"


class Assignment(NamedTuple):
    """One policy on one module, with the project of the module."""

    policy: str
    module: str
    project: str


class EpisodeRecord:
    """The record of a running episode; it starts when it is made.

    Attributes:
        assignment: Policy and module.
        policy: The policy object of the episode.
        info: The info of the pending decision; empty before the first.
        policy_seconds: CPU time of the policy so far.
    """

    def __init__(self, assignment: Assignment, policy: Policy) -> None:
        self.assignment = assignment
        self.policy = policy
        self.info: Mapping[str, Any] = {}
        self.policy_seconds = 0.0
        self._started = time.perf_counter()
        self._actions: list[Any] = []
        self._reward = 0.0
        self._illegal = 0

    def add_action(self, action: Any) -> None:
        """Record the action of the pending decision."""
        self._actions.append(action)

    def add_info(self, info: Mapping[str, Any], reward: float) -> None:
        """Record the info and the reward that followed the last action; the reward of a reset does not count."""
        if self.info:
            self._reward += reward
        if self.info and info.get("illegal_action", False):
            self._illegal += 1
            self._actions[-1] = self.info["default_action"]
        self.info = info

    def result(self, action_space: gym.Space[Any]) -> EpisodeResult:
        """Return the result of the finished episode."""
        info = self.info
        return EpisodeResult(
            *self.assignment,
            FAILED if info["error"] else DONE,
            metrics={} if info["error"] else metrics_of(info),
            reward=self._reward,
            decisions=info["decisions"],
            handed_over=info["handed_over"],
            illegal_actions=self._illegal,
            actions=pack_actions(self._actions, action_space),
            seconds=round(time.perf_counter() - self._started, 6),
            error=info["error"] or None,
            policy_seconds=round(self.policy_seconds, 6),
        )


def failure(assignment: Assignment, error: Exception) -> EpisodeResult:
    """Return the result of an episode that an exception of the compiler, this package or the policy ended."""
    details: dict[str, Any]
    if isinstance(error, CompilerError):
        details = {name: getattr(error, name) for name in ("kind", "message", "exit_status", "stderr")}
    elif isinstance(error, MlgoError):
        details = {"kind": type(error).__name__, "message": str(error)}
    else:
        lines = "".join(traceback.format_exception(error))
        details = {"kind": "policy", "message": f"{type(error).__name__}: {error}", "traceback": lines}
    return EpisodeResult(*assignment, FAILED, error=details)


def metrics_of(info: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the metrics in an episode's last info, each with its baseline."""
    pairs = {name: (info[name], info[_BASELINE + name]) for name in info if _BASELINE + name in info}
    return {name: pair for name, pair in pairs.items() if isinstance(pair[0], (int, float))}


def compile_metrics(task: Task, measurement: Measurement, baseline: Measurement) -> dict[str, tuple[float, float]]:
    """Return the metrics of a compile, each with its baseline, as an episode's last info has them."""
    sizes, baseline_sizes = measurement.sizes_by_metric(), baseline.sizes_by_metric()
    metrics: dict[str, tuple[float, float]] = {name: (sizes[name], baseline_sizes[name]) for name in sizes}
    return metrics | metrics_of(task.report(measurement, baseline))
