"""An episode of an evaluation on its way, and the line of results that becomes of it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym

from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.evaluation.actions import pack_actions
from mlgo_gym.evaluation.episode_result import DONE, FAILED, EpisodeResult

_BASELINE = "baseline_"


class Assignment(NamedTuple):
    """One policy on one module, and the project that this belongs to."""

    policy: str
    module: str
    project: str


class EpisodeRecord:
    """Collects what happens in an episode, from its start to its result.

    Args:
        assignment: whose episode it is; it starts now.

    Attributes:
        assignment: as given.
        policy_seconds: the processor time that the policy has taken so far.
    """

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.policy_seconds = 0.0
        self._started = time.perf_counter()
        self._actions: list[Any] = []
        self._default: Any = None
        self._total = 0.0
        self._illegal = 0

    def answer(self, action: Any, info: Mapping[str, Any]) -> None:
        """Record the policy's action at a decision, and that decision's info."""
        self._actions.append(action)
        self._default = info["default_action"]

    def note(self, reward: float, info: Mapping[str, Any]) -> None:
        """Record what the last action led to: a reward, and the next info."""
        self._total += reward
        if info.get("illegal_action", False):
            self._illegal += 1
            self._actions[-1] = self._default

    def result(self, info: Mapping[str, Any], actions: gym.Space[Any]) -> EpisodeResult:
        """Return the result of the episode.

        Args:
            info: its last info.
            actions: the action space.
        """
        return EpisodeResult(
            *self.assignment,
            FAILED if "error" in info else DONE,
            measures=measures_of(info),
            reward=self._total,
            decisions=info["decisions"],
            handed_over=info["handed_over"],
            illegal_actions=self._illegal,
            actions=pack_actions(self._actions, actions),
            seconds=round(time.perf_counter() - self._started, 6),
            error=info.get("error"),
            policy_seconds=round(self.policy_seconds, 6),
        )


def failure(assignment: Assignment, error: Exception) -> EpisodeResult:
    """Return the result of an episode that an exception has ended: the compiler's, another of ours, or the policy's."""
    if isinstance(error, CompilerError):
        told = {"kind": error.kind, "message": error.message, "exit_status": error.exit_status, "stderr": error.stderr}
    elif isinstance(error, MlgoError):
        told = {"kind": type(error).__name__, "message": str(error)}
    else:
        lines = "".join(traceback.format_exception(error))
        told = {"kind": "policy", "message": f"{type(error).__name__}: {error}", "traceback": lines}
    return EpisodeResult(*assignment, FAILED, error=told)


def measures_of(info: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return every measure in an episode's last info that is a number and has a baseline, each with that."""
    pairs = {name: (info[name], info[_BASELINE + name]) for name in info if _BASELINE + name in info}
    return {name: pair for name, pair in pairs.items() if isinstance(pair[0], (int, float))}
