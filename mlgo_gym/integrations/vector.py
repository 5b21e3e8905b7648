"""`NormalizeFeatures` for vector environments."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
from gymnasium.vector.utils import batch_space

from mlgo_gym.integrations.normalize_features import FlatNormalizer
from mlgo_gym.policies.network import Normalization

StepResult = tuple[Any, Any, Any, Any, dict[str, Any]]
"""Observations, rewards, terminations, truncations and infos."""


class NormalizeFeatures(gym.vector.VectorWrapper):  # type: ignore[type-arg, unused-ignore] # generic since 1.3
    """Normalizes the flat observations of a vector environment.

    Arguments, attributes and errors are those of `mlgo_gym.integrations.NormalizeFeatures`. The last observations of
    episodes, `info["final_obs"]`, are normalized too. EnvPool's `async_reset()`, `send()` and `recv()` are those of the
    environment inside.
    """

    def __init__(
        self, env: gym.vector.VectorEnv[Any, Any, Any], normalization: Normalization | Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(env)
        inner: Any = env.unwrapped
        self._normalize = FlatNormalizer(normalization, inner.feature_names, env.single_observation_space)
        self.normalization = self._normalize.normalization
        self.feature_names = self.normalization.names
        self._wrapped: Any = env  # Gymnasium's interface has neither lists of seeds nor EnvPool's methods.
        self.single_observation_space = self._normalize.space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Reset the environments, and return normalized observations."""
        observations, infos = self._wrapped.reset(**arguments)
        return self._normalize(observations), infos

    def step(self, actions: Any) -> StepResult:
        """Step the environments, and return normalized observations, also the last ones of episodes that ended."""
        return self._normalized(self._wrapped.step(actions))

    def async_reset(self, **arguments: Any) -> None:
        """Start an episode in every environment; `recv()` returns each when it is ready."""
        self._wrapped.async_reset(**arguments)

    def send(self, actions: Any, env_ids: Any = None, **arguments: Any) -> None:
        """Answer the decisions of some environments, by default those of the last `recv()`, and return at once."""
        self._wrapped.send(actions, env_ids, **arguments)

    def recv(self) -> StepResult:
        """Return the first environments that are ready, with normalized observations."""
        return self._normalized(self._wrapped.recv())

    def _normalized(self, step: StepResult) -> StepResult:
        observations, *others, infos = step
        for row, last in enumerate(infos.get("final_obs", ())):
            if last is not None:
                infos["final_obs"][row] = self._normalize(last)
        rewards, terminations, truncations = others
        return self._normalize(observations), rewards, terminations, truncations, infos
