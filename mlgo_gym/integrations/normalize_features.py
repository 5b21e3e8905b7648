"""`NormalizeFeatures`: an environment whose features are of similar size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from mlgo_gym.policies.normalization import CLIP, Normalization


class FlatNormalizer:
    """Normalizes the flat part of observations, alone or beside an action mask, and of batches of them.

    Args:
        normalization: A fitted normalization, or its JSON data.
        names: Names of the raw features; the normalization may know fewer.
        space: Space of the raw observations of one environment.

    Attributes:
        normalization: The normalization.
        space: Space of normalized observations: a Box, alone or in a Dict beside an action mask.
    """

    def __init__(
        self, normalization: Normalization | Mapping[str, Any], names: Sequence[str], space: gym.Space[Any]
    ) -> None:
        if not isinstance(normalization, Normalization):
            normalization = Normalization.from_json(normalization)
        self.normalization = normalization
        self._columns = self.normalization.columns(names)
        box = gym.spaces.Box(-CLIP, CLIP, (len(self.normalization.names),), np.float32)
        self.space: gym.Space[Any] = (
            gym.spaces.Dict({**space.spaces, "observations": box}) if isinstance(space, gym.spaces.Dict) else box
        )

    def __call__(self, observation: Any) -> Any:
        """Return an observation, or a batch of them, with its flat part normalized."""
        if isinstance(observation, dict):
            return {**observation, "observations": self.normalization(observation["observations"][..., self._columns])}
        return self.normalization(observation[..., self._columns])


class NormalizeFeatures(gym.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Normalizes flat observations, alone or beside an action mask.

    Features are found by name; the observation has only those that the normalization knows.

    ```python
    env = gym.make("mlgo/Inline-v0", corpus="zstd")
    normalization = fit_normalization(env)
    env = NormalizeFeatures(env, normalization)
    ```

    Args:
        env: An environment of mlgo-gym.
        normalization: A fitted normalization, or its JSON data.

    Attributes:
        normalization: The normalization.
        feature_names: Name of each element of an observation.

    Raises:
        MlgoError: The observations lack a feature.
    """

    def __init__(self, env: gym.Env[Any, Any], normalization: Normalization | Mapping[str, Any]) -> None:
        self._normalize = FlatNormalizer(normalization, env.get_wrapper_attr("feature_names"), env.observation_space)
        self.normalization = self._normalize.normalization
        RecordConstructorArgs.__init__(self, normalization=self.normalization.to_json())
        super().__init__(env)
        self.feature_names = self.normalization.names
        self.observation_space = self._normalize.space

    def observation(self, observation: Any) -> Any:
        """Return the observation with its features normalized."""
        return self._normalize(observation)
