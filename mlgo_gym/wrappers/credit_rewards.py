"""`CreditRewards`: the reward of an episode, decision by decision."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import RecordConstructorArgs

from mlgo_gym.errors import MlgoError


class CreditRewards(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Adds `info["rewards"]` to the last step: one reward for each decision, whose sum is the episode's reward.

    What a decision saved is only known when the compile is over, so `step()` returns what it did before, and a trainer
    writes the rewards over those that it has collected. They are the bytes of `info["credit"]`, in the unit of the
    episode's reward. Decisions that clang took after `max_decisions` get no reward; their savings are shared
    equally by all others.

    Args:
        env: an environment of inlining with `credit=True`, wrapped or not.

    Raises:
        MlgoError: the environment gives no credit.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        options = getattr(getattr(env.unwrapped, "setup", None), "options", None)
        if not getattr(options, "credit", False):
            raise MlgoError(f"expected an environment made with credit=True, got {env}")

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Answer the current decision; with the last, `info["rewards"]` is float64 of shape (number of decisions,)."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if "credit" in info:
            info["rewards"] = decision_rewards(info, float(reward))
        return observation, reward, terminated, truncated, info


def decision_rewards(info: dict[str, Any], reward: float) -> npt.NDArray[np.float64]:
    """Return a reward for each decision of the agent, from the last info and the reward of an episode."""
    saved = np.array(info["credit"])
    total = info["baseline_text"] - info["text"]
    # Without a change in all, its parts still have their worth: as for the relative reward.
    scale = reward / total if total else 1.0 / max(info["baseline_text"], 1)
    rewards: npt.NDArray[np.float64] = saved[: info["decisions"]] * scale
    if len(rewards):
        rewards += (reward - rewards.sum()) / len(rewards)
    return rewards
