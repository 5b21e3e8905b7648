"""A policy's decisions outside an environment, for instance in the compiles of a search."""

from __future__ import annotations

from typing import Any

from mlgo_gym.compiler.protocol.decision import Decision
from mlgo_gym.policies.protocol import Policy
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
        self._task, self._policy, self._module = task, policy, module
        self._count = 0

    def begin(self) -> None:
        """Start a compile: the next decision is its first."""
        self._count = 0

    def __call__(self, decision: Decision) -> int:
        """Return 1 to inline, 0 to keep the call."""
        info = decision_info(self._task, decision, self._module, self._count)
        self._count += 1
        return int(self._policy.act(self._task.observe(decision), info))


def decision_info(task: Task, decision: Decision, module: str, number: int) -> dict[str, Any]:
    """Return the part of the info that policies read at a decision; `number` is its index in the compile."""
    info: dict[str, Any] = {
        "module": module,
        "context": decision.context,
        "site": decision.site,
        "decision_index": number,
        "default_action": task.default_action(decision),
    }
    if (mask := task.action_mask(decision)) is not None:
        info["action_mask"] = mask
    if decision.callee is not None:
        info["callee"] = decision.callee
    return info
