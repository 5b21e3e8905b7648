"""`NormalizeFeatures`: an environment whose features are of similar size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.utils import RecordConstructorArgs

from mlgo_gym.policies.normalization import CLIP, Normalization

GivenNormalization = Normalization | Mapping[str, Any]
"""A normalization, or its JSON data."""


class NormalizeFeatures(gym.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Normalizes flat observations, alone or beside an action mask.

    Features are found by name; the observation has only those that the normalization knows.

    ```python
    env = gym.make("mlgo/Inline-v0", corpus="zstd")
    normalization = fit_normalization(env)
    env = NormalizeFeatures(env, normalization)
    ```

    Args:
        env: an environment of mlgo-gym with flat observations.
        normalization: a fitted normalization, or its JSON data.

    Attributes:
        normalization: the normalization.
        feature_names: the name of each element of an observation.

    Raises:
        MlgoError: the observations are raw tensors, or lack a feature.
    """

    def __init__(self, env: gym.Env[Any, Any], normalization: GivenNormalization) -> None:
        self.normalization = given_normalization(normalization)
        RecordConstructorArgs.__init__(self, normalization=self.normalization.to_json())
        super().__init__(env)
        self.feature_names = self.normalization.names
        self._columns = self.normalization.columns(env.get_wrapper_attr("feature_names"))
        self.observation_space = normalized_space(env.observation_space, self.normalization)

    def observation(self, observation: Any) -> Any:
        """Return the observation with its features normalized."""
        return normalize(observation, self.normalization, self._columns)


def given_normalization(value: GivenNormalization) -> Normalization:
    """Return a given normalization, or raise an MlgoError."""
    return value if isinstance(value, Normalization) else Normalization.from_json(value)


def normalized_space(space: gym.Space[Any], normalization: Normalization) -> gym.Space[Any]:
    """Return the space of `normalize()`: a Box, alone or in a Dict beside an action mask; raw tensors are an error."""
    box = gym.spaces.Box(-CLIP, CLIP, (len(normalization.names),), np.float32)
    return gym.spaces.Dict({**space.spaces, "observations": box}) if isinstance(space, gym.spaces.Dict) else box


def normalize(observation: Any, normalization: Normalization, columns: npt.NDArray[np.intp]) -> Any:
    """Return an observation, or a batch of them, with its flat part normalized."""
    if isinstance(observation, dict):
        return {**observation, "observations": normalization(observation["observations"][..., columns])}
    return normalization(observation[..., columns])
