"""A policy's decisions outside an environment, for instance in the compiles of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.episode.attribution.inline_compile import InlineDecision
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.protocol import Policy
from mlgo_gym.tasks.infos import decision_info
from mlgo_gym.tasks.task import Task


class SessionPolicy:
    """A policy's decisions about one module.

    Args:
        task: the bound task.
        policy: the policy; its decision depends on the observation only. If it uses callee features, the decisions
            must have them.
        module: the module's name.
    """

    def __init__(self, task: Task, policy: Policy, module: str) -> None:
        self._task = task
        self._policy = policy
        self._module = module
        self._count = 0

    def begin(self) -> None:
        """Start a compile: the next decision is its first."""
        self._count = 0

    def __call__(self, decision: Decision) -> int:
        """Return 1 to inline, 0 to keep the call."""
        info = decision_info(self._task, decision, self._module, self._count)
        self._count += 1
        return int(self._policy.act(self._task.observe(decision), info))

    def interest(self, decisions: Sequence[InlineDecision]) -> list[float]:
        """Return a weight for each decision: larger if the policy is unsure or disagrees with clang."""
        interest = [0.1 + float(decision.answer != decision.default) for decision in decisions]
        if not isinstance(self._policy, MlpPolicy):
            return [value + 0.9 for value in interest]
        observations = [self._task.observe(Decision(0, decision.site, decision.payload)) for decision in decisions]
        logits = self._policy.logits(_stacked(observations))
        return [value + float(np.exp(-abs(logit))) for value, logit in zip(interest, logits, strict=True)]


def _stacked(observations: Sequence[Any]) -> Any:
    if isinstance(observations[0], dict):
        return {name: np.stack([each[name] for each in observations]) for name in observations[0]}
    return np.stack(observations)
