"""What a policy answers to decisions that no environment hands it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlgo_gym.episode.placed_compile import PlacedDecision
from mlgo_gym.policies.box import BoxedPolicy
from mlgo_gym.policies.call_features import features_of_calls
from mlgo_gym.policies.calls import CallsPolicy
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.protocol import Policy
from mlgo_gym.session.decision import Decision
from mlgo_gym.tasks.task import Task


class Answers:
    """A policy's answers to the decisions of one module.

    Args:
        task: the bound task.
        policy: the policy; it answers equal observations alike. If it sees calls, the decisions must have them.
        module: the module's name.
    """

    def __init__(self, task: Task, policy: Policy, module: str) -> None:
        self._task = task
        self._policy = policy
        self._module = module
        self._count = 0

    def begin(self) -> None:
        """Note that the next decision is the first of a compile."""
        self._count = 0

    def __call__(self, decision: Decision) -> int:
        """Return 1 to inline, 0 to keep the call."""
        info = decision_info(self._task, decision, self._module, self._count)
        self._count += 1
        return int(self._policy.act(self._task.observe(decision), info))

    def interest(self, decisions: Sequence[PlacedDecision]) -> list[float]:
        """Return how much there is to learn from each decision: more where the policy is unsure, or not with clang."""
        interest = [0.1 + float(decision.answer != decision.default) for decision in decisions]
        if not isinstance(self._policy, MlpPolicy | BoxedPolicy | CallsPolicy):
            return [value + 0.9 for value in interest]
        observations = stacked([self._task.observe(Decision(0, "", 0, decision.payload)) for decision in decisions])
        if isinstance(self._policy, CallsPolicy):
            logits = self._policy.logits(observations, features_of_calls(decisions, self._task.headers[0].dtype))
        else:
            logits = self._policy.logits(observations)
        return [value + float(np.exp(-abs(logit))) for value, logit in zip(interest, logits, strict=True)]


def decision_info(task: Task, decision: Decision, module: str, number: int) -> dict[str, Any]:
    """Return the info that a policy is given with an inlining decision, as far as policies look at it.

    Args:
        task: the bound task.
        decision: the decision, with its place; if it has a call, that is told too.
        module: the module's name.
        number: the number of the decision in the compile, from 0.
    """
    info: dict[str, Any] = {
        "module": module,
        "context": decision.context,
        "visit": decision.visit,
        "position": decision.number,
        "decision": number,
        "default_action": task.default_action(decision),
    }
    if decision.call is not None:
        info["call"] = decision.call
    return info


def stacked(observations: Sequence[Any]) -> Any:
    """Return observations as a batch: an array with one row for each, or a dictionary of such arrays."""
    if isinstance(observations[0], dict):
        return {name: np.stack([each[name] for each in observations]) for name in observations[0]}
    return np.stack(observations)
