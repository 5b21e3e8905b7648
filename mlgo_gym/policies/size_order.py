"""The policy `size_order`: registers for the longest live ranges first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.advisors import PRIORITY
from mlgo_gym.env import CompilerEnv
from mlgo_gym.policies.features import feature_reader
from mlgo_gym.policies.fitting import check_advisor, misfit


class SizeOrderPolicy:
    """Gives each live range its size as priority.

    Args:
        env: the environment; it asks about priorities, and an action is one number.

    Raises:
        PolicyError: it does not.
    """

    def __init__(self, env: CompilerEnv) -> None:
        check_advisor("size_order", env, PRIORITY)
        space = env.action_space
        if not (isinstance(space, gym.spaces.Box) and space.low.size == 1):
            raise misfit("size_order", "a Box of one number as action space", str(space))
        self._size = feature_reader("size_order", env, "li_size")
        self._space = space

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:  # noqa: ARG002 - the interface of a policy
        """Return the feature `li_size`, the size of the live range in instruction slots, within the action space."""
        size = np.clip(self._size(observation), self._space.low, self._space.high)
        return np.asarray(size, self._space.dtype).reshape(self._space.shape)
