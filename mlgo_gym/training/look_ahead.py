"""One step of look-ahead as a policy: each legal action is tried in a copy of the waiting compile, and clang goes on.

What it does is better than clang wherever one other decision is; a network that imitates it has learned from
counterfactual labels, each the exact worth of an action where everything after it is left to clang.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError


class LookAheadPolicy:
    """Takes the action after which clang's own choices end best, clang's own where none is better.

    Args:
        env: the environment that asks: its decisions are copied (`fork()`), so it cannot be another one of its kind.
        most: so many other actions are tried at each decision, drawn at random where more are legal.
        longest: so many decisions of an episode are looked into; clang takes those that follow.
        seed: what is drawn.

    Raises:
        MlgoError: a number is below 1.
    """

    def __init__(self, env: CompilerEnv, most: int = 4, longest: int = 60, seed: int = 0) -> None:
        if min(most, longest) < 1:
            raise MlgoError(f"one action or more was wanted at one decision or more, found {most} at {longest}")
        self._env = env
        self._most = most
        self._longest = longest
        self._chance = np.random.default_rng(seed)

    def act(self, observation: Any, info: Mapping[str, Any]) -> int:  # noqa: ARG002 - the interface of a policy
        """Return the best of clang's choice and some others."""
        usual = int(info["default_action"])
        actions = int(self._env.action_space.n)  # type: ignore[attr-defined] # BestOf has checked that they are discrete
        mask = info.get("action_mask")
        others = [action for action in range(actions) if action != usual and (mask is None or mask[action])]
        if info["decision"] >= self._longest or not others:
            return usual
        if len(others) > self._most:
            others = sorted(self._chance.choice(others, self._most, replace=False).tolist())
        # Of equals the first is taken, and clang's own choice is first.
        return max([usual, *others], key=self._reward)

    def _reward(self, action: int) -> float:
        copy = self._env.fork()
        try:
            _, reward, terminated, truncated, info = copy.step(action)
            total = float(reward)
            while not (terminated or truncated):
                _, reward, terminated, truncated, info = copy.step(info["default_action"])
                total += float(reward)
        finally:
            copy.close()
        return -np.inf if "error" in info else total
