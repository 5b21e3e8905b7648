"""How a policy reads a feature by name, whatever form the observations have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym

from mlgo_gym.env import CompilerEnv
from mlgo_gym.policies.fitting import misfit


def feature_reader(policy: str, env: CompilerEnv, feature: str) -> Callable[[Any], float]:
    """Return a function that takes an observation and returns one of its scalar features.

    Args:
        policy: the policy's name, for the error.
        env: the environment that the observations come from: flat ones, flat ones beside an action mask, or
            dictionaries of raw tensors.
        feature: the feature's name.

    Raises:
        PolicyError: the environment has no such feature, or it is no scalar.
    """
    space = env.observation_space
    if isinstance(space, gym.spaces.Dict) and feature in space.spaces:
        return lambda observation: float(observation[feature].item())
    if feature not in env.feature_names:
        raise misfit(policy, f"the feature {feature!r}", f"the features {', '.join(env.feature_names)}")
    index = env.feature_names.index(feature)
    if isinstance(space, gym.spaces.Dict):
        return lambda observation: float(observation["observations"][index])
    return lambda observation: float(observation[index])
