"""The policy `size_order`: registers for the longest live ranges first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from mlgo_gym.env import CompilerEnv
from mlgo_gym.llvm.advisors import PRIORITY
from mlgo_gym.policies.features import feature_reader
from mlgo_gym.policies.fitting import check_advisor, misfit

_LARGEST = 2.0**24
"""The largest live range that is told from larger ones, in slots: up to it float32 holds every size."""


class SizeOrderPolicy:
    """Orders live ranges by their size alone; clang also looks at their stage, their start and their registers.

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
        """Return a part of the action space in proportion to the feature `li_size`, which counts instruction slots."""
        part = min(self._size(observation), _LARGEST) / _LARGEST
        action = self._space.low + part * (self._space.high - self._space.low)
        return action.astype(self._space.dtype)
