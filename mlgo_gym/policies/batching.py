"""Several decisions at once: by a policy's own batched form, or one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import numpy.typing as npt

from mlgo_gym.policies.protocol import BatchedPolicy, Policy


def act_batch(policy: Policy, observations: Any, infos: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return a policy's action for each of several decisions.

    Args:
        policy: the policy; without a batched form it is asked once for each.
        observations: an array with one row for each decision, or a dictionary of such arrays.
        infos: what came with each.
    """
    if len(infos) > 1 and is_batched(policy):
        return list(policy.act_batch(observations, infos))
    return [policy.act(row(observations, number), info) for number, info in enumerate(infos)]


def is_batched(policy: Policy) -> TypeGuard[BatchedPolicy]:
    """Return whether a policy has a batched form; Python's check of the protocol takes as long as a decision."""
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
