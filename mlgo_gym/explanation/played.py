"""What a policy saw and did in episodes, so that it can be asked again about what it saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.env import CompilerEnv
from mlgo_gym.policies import Policy, act_batch
from mlgo_gym.policies.observation_samples import flat_part

OWN_CHOICE = "inlining_default"
"""The feature that says clang's own choice; where it changes, `info["default_action"]` does too."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One decision.

    Attributes:
        row: float32 of shape (features,).
        mask: int8 of shape (actions,) where actions are masked; else None.
        default: clang's own choice.
        context: the function, for register allocation.
    """

    row: npt.NDArray[np.float32]
    mask: npt.NDArray[np.int8] | None
    default: Any
    context: str

    @classmethod
    def of(cls, observation: Any, info: Mapping[str, Any]) -> Seen:
        """Return what an environment with flat observations showed."""
        row = np.array(flat_part(observation), np.float32)
        return cls(row, info.get("action_mask"), info["default_action"], info.get("context", ""))

    def observation(self, row: npt.NDArray[np.float32]) -> Any:
        """Return the observation with other features."""
        return row if self.mask is None else {"observations": row, "action_mask": self.mask}

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


def feature_groups(env: CompilerEnv) -> dict[str, list[int]]:
    """Return the columns of each feature; those of one tensor, such as `is_hint[0]` and `is_hint[1]`, are one feature.

    What says which actions are legal is none.
    """
    groups: dict[str, list[int]] = {}
    for column, name in enumerate(env.feature_names):
        groups.setdefault(name.partition("[")[0], []).append(column)
    groups.pop("mask", None)
    return groups


def answers(policy: Policy, seen: Sequence[Seen], rows: npt.NDArray[np.float32], own: int | None) -> list[Any]:
    """Return what a policy answers to decisions with other features.

    Args:
        policy: the policy.
        seen: the decisions.
        rows: float32 of shape (decisions, features).
        own: the column of clang's own choice, if there is one.
    """
    infos = [each.info(row, own) for each, row in zip(seen, rows, strict=True)]
    if seen and seen[0].mask is not None:
        masks = np.stack([np.asarray(each.mask) for each in seen])
        return act_batch(policy, {"observations": rows, "action_mask": masks}, infos)
    return act_batch(policy, rows, infos)


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
        seen = Seen.of(observation, info)
        row = seen.row.copy()
        row[self._columns] = self._pool[self._generator.integers(len(self._pool)), self._columns]
        changed = {**info, "default_action": seen.info(row, self._own)["default_action"]}
        return self._policy.act(seen.observation(row), changed)
