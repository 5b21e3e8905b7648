"""The interface of policies: one decision at a time, or several at once; and decisions outside an environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy.typing as npt

from mlgo_gym.compiler.decision import Decision
from mlgo_gym.tasks.infos import decision_info
from mlgo_gym.tasks.task import Task


class Policy(Protocol):
    """Makes the decisions of an environment, one after the other.

    A policy with a state resets it where `info["decision_index"]` is 0, at the first decision of an episode.
    """

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the action for a decision, an element of the environment's action space.

        Args:
            observation: the observation of the environment's `reset()` or `step()`.
            info: its info, with `module`, `context` (the function, for register allocation), `decision_index` (the
                decision's number in the episode, from 0), `default_action` (clang's own choice), and `action_mask` if
                the task has one.
        """


@runtime_checkable
class BatchedPolicy(Policy, Protocol):
    """A policy that also makes decisions of several episodes at once, faster than one by one.

    Episodes run at the same time share one policy of this kind. A policy with a state must tell the episodes apart.
    Other policies have one copy per episode.
    """

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        """Return an action for each decision.

        Args:
            observations: a batch as of a vector environment: an array with one row per decision, or a dictionary of
                such arrays.
            infos: the info of each decision.
        """


def act_batch(policy: Policy, observations: Any, infos: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return a policy's action for each of several decisions, by `act()` if it has no `act_batch()`."""
    if len(infos) > 1 and is_batched(policy):
        return list(policy.act_batch(observations, infos))
    return [policy.act(row(observations, number), info) for number, info in enumerate(infos)]


def is_batched(policy: Policy) -> TypeGuard[BatchedPolicy]:
    """Return whether a policy has `act_batch()`; Python's check of the protocol takes as long as a decision."""
    return callable(getattr(policy, "act_batch", None))


def row(observations: Any, number: int) -> Any:
    """Return one observation of a batch, in the form of a single environment."""
    if isinstance(observations, dict):
        return {name: row(part, number) for name, part in observations.items()}
    return observations[number, ...]


def rows(observations: Any, numbers: Sequence[int] | npt.NDArray[Any]) -> Any:
    """Return some observations of a batch, as a batch."""
    if isinstance(observations, dict):
        return {name: rows(part, numbers) for name, part in observations.items()}
    return observations[numbers]


class SessionPolicy:
    """Decisions about one module, of a policy that depends on the observation only; it may need callee features."""

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
