"""What a policy saw and did in episodes, so that it can be asked again about what it saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.env import CompilerEnv
from mlgo_gym.policies import Policy, act_batch
from mlgo_gym.policies.box import BoxedPolicy
from mlgo_gym.policies.call_features import CALL_FEATURES, MEANINGS
from mlgo_gym.policies.calls import CallsPolicy
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.observation_samples import flat_part

OWN_CHOICE = "inlining_default"
"""The feature that says clang's own choice; where it changes, `info["default_action"]` does too."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One decision.

    Attributes:
        row: what the policy saw, float32 of shape (features,); see `seen_features()`.
        mask: int8 of shape (actions,) where actions are masked; else None.
        default: clang's own choice.
        context: the function, for register allocation.
    """

    row: npt.NDArray[np.float32]
    mask: npt.NDArray[np.int8] | None
    default: Any
    context: str

    @classmethod
    def of(cls, policy: Policy, observation: Any, info: Mapping[str, Any]) -> Seen:
        """Return what an environment of flat observations showed; a policy that sees calls goes on to it."""
        row = np.array(flat_part(observation), np.float32)
        if isinstance(policy, CallsPolicy):
            row = np.concatenate([row, policy.follow(observation, info)])
        return cls(row, info.get("action_mask"), info["default_action"], info.get("context", ""))

    def answer(self, policy: Policy, row: npt.NDArray[np.float32], info: Mapping[str, Any]) -> Any:
        """Return what the policy that saw this, and no later decision, answers where the features are others."""
        if isinstance(policy, CallsPolicy):
            return policy.answer(*_by_origin(row), info)
        return policy.act(row if self.mask is None else {"observations": row, "action_mask": self.mask}, info)

    def info(self, row: npt.NDArray[np.float32], own: int | None) -> dict[str, Any]:
        """Return the info with other features.

        Args:
            row: the features.
            own: the column of clang's own choice, if there is one.
        """
        default = self.default if own is None else int(row[own])
        masked = {} if self.mask is None else {"action_mask": self.mask}
        return {"module": "", "context": self.context, "decision": 1, "default_action": default, **masked}


def own_choice(env: CompilerEnv) -> int | None:
    """Return the column of clang's own choice among the features, if there is one."""
    return env.feature_names.index(OWN_CHOICE) if OWN_CHOICE in env.feature_names else None


def seen_features(env: CompilerEnv, policy: Policy) -> tuple[str, ...]:
    """Return the names of what a policy sees: clang's features, and those of calls where it sees calls."""
    return (*env.feature_names, *(CALL_FEATURES if isinstance(policy, CallsPolicy) else ()))


def meanings(env: CompilerEnv) -> dict[str, str]:
    """Return what each feature says, by name, those of calls among them."""
    own = {feature.name: feature.meaning for table in env.task.tables for feature in table.features}
    return own | MEANINGS


def seen_groups(env: CompilerEnv, policy: Policy) -> dict[str, list[int]]:
    """Return the columns of each feature that a policy sees, as `feature_groups()` does."""
    return feature_groups(seen_features(env, policy))


def feature_groups(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the columns of each feature; those of one tensor, such as `is_hint[0]` and `is_hint[1]`, are one feature.

    What says which actions are legal is none.
    """
    groups: dict[str, list[int]] = {}
    for column, name in enumerate(names):
        groups.setdefault(name.partition("[")[0], []).append(column)
    groups.pop("mask", None)
    return groups


def answers(policy: Policy, seen: Sequence[Seen], rows: npt.NDArray[np.float32], own: int | None) -> list[Any]:
    """Return what a policy answers to decisions with other features.

    Args:
        policy: the policy.
        seen: the decisions.
        rows: float32 of shape (decisions, features), of all that it sees.
        own: the column of clang's own choice, if there is one.
    """
    if isinstance(policy, CallsPolicy):
        return answers_about_calls(policy, rows)
    infos = [each.info(row, own) for each, row in zip(seen, rows, strict=True)]
    if seen and seen[0].mask is not None:
        masks = np.stack([np.asarray(each.mask) for each in seen])
        return act_batch(policy, {"observations": rows, "action_mask": masks}, infos)
    return act_batch(policy, rows, infos)


def answers_about_calls(policy: CallsPolicy, rows: npt.NDArray[np.float32]) -> list[int]:
    """Return what a policy that follows a compile answers to decisions in any order.

    Args:
        policy: the policy.
        rows: float32 of shape (decisions, features), of all that it sees.
    """
    return [int(logit > 0) for logit in policy.logits(*_by_origin(rows))]


def preferences(policy: Policy, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32] | None:
    """Return how much a network prefers action 1, float32 of shape (decisions,); None for a policy that is none.

    Args:
        policy: the policy.
        rows: float32 of shape (decisions, features), of all that it sees.
    """
    if isinstance(policy, CallsPolicy):
        return policy.logits(*_by_origin(rows))
    return policy.logits(rows) if isinstance(policy, MlpPolicy | BoxedPolicy) else None


def _by_origin(rows: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return clang's features and those of calls, of rows that have both."""
    own = rows.shape[-1] - len(CALL_FEATURES)
    return rows[..., :own], rows[..., own:]


class Blindfolded:
    """A policy that sees some features of another decision, drawn at random, in the place of those of its own.

    Args:
        policy: the policy.
        columns: the features.
        pool: float32 of shape (decisions, features): the decisions that they are drawn from.
        own: the column of clang's own choice, if there is one.
        seed: the source of chance.
    """

    def __init__(
        self, policy: Policy, columns: Sequence[int], pool: npt.NDArray[np.float32], own: int | None, seed: int
    ) -> None:
        self._policy = policy
        self._columns = list(columns)
        self._pool = pool
        self._own = own
        self._generator = np.random.default_rng(seed)

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return what the policy answers to the decision as it is made to see it."""
        seen = Seen.of(self._policy, observation, info)
        row = seen.row.copy()
        row[self._columns] = self._pool[self._generator.integers(len(self._pool)), self._columns]
        changed = {**info, "default_action": seen.info(row, self._own)["default_action"]}
        return seen.answer(self._policy, row, changed)
