"""Decisions of a policy in episodes, recorded to ask the policy again with other features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.callee_features import CALLEE_FEATURES
from mlgo_gym.env import CompilerEnv
from mlgo_gym.llvm.advisors import INLINING_DEFAULT
from mlgo_gym.policies import Policy, act_batch
from mlgo_gym.policies.features import flat_part
from mlgo_gym.policies.mlp import MlpPolicy

Rows = npt.NDArray[np.float32]
"""Flat observations, float32 of shape (decisions, features)."""


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """One decision: a flat observation, an action mask if the task has one, clang's own choice, and the function."""

    row: Rows
    mask: npt.NDArray[np.int8] | None
    default: Any
    context: str

    @classmethod
    def of(cls, observation: Any, info: Mapping[str, Any]) -> RecordedDecision:
        """Return the decision of an environment with flat observations."""
        row = np.array(flat_part(observation), np.float32)
        return cls(row, info.get("action_mask"), info["default_action"], info.get("context", ""))

    def info(self, row: Rows, default_column: int | None) -> dict[str, Any]:
        """Return the info with other features."""
        default = self.default if default_column is None else int(row[default_column])
        masked = {} if self.mask is None else {"action_mask": self.mask}
        return {"module": "", "context": self.context, "decision_index": 1, "default_action": default, **masked}


def default_column(env: CompilerEnv) -> int | None:
    """Return the column of clang's own choice among the features; None without such a feature."""
    return env.feature_names.index(INLINING_DEFAULT) if INLINING_DEFAULT in env.feature_names else None


def feature_meanings(env: CompilerEnv) -> dict[str, str]:
    """Return the meaning of each feature by name."""
    meanings = {feature.name: feature.meaning for table in env.task.tables for feature in table.features}
    return {**meanings, **CALLEE_FEATURES}


def feature_groups(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the columns of each feature; the columns of one tensor, such as `is_hint[0]`, are one feature.

    The action mask is not a feature.
    """
    groups: dict[str, list[int]] = {}
    for column, name in enumerate(names):
        groups.setdefault(name.partition("[")[0], []).append(column)
    groups.pop("mask", None)
    return groups


def actions_on(policy: Policy, decisions: Sequence[RecordedDecision], rows: Rows, column: int | None) -> list[Any]:
    """Return a policy's actions at decisions with other features; `column` is that of clang's own choice."""
    infos = [each.info(row, column) for each, row in zip(decisions, rows, strict=True)]
    if decisions and decisions[0].mask is not None:
        masks = np.stack([np.asarray(each.mask) for each in decisions])
        return act_batch(policy, {"observations": rows, "action_mask": masks}, infos)
    return act_batch(policy, rows, infos)


def logits_on(policy: Policy, rows: Rows) -> npt.NDArray[np.float32] | None:
    """Return a network's logits of action 1, float32 of shape (decisions,); None for other policies."""
    return policy.logits(rows) if isinstance(policy, MlpPolicy) else None
