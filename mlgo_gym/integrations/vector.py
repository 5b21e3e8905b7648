"""`NormalizeFeatures` for vector environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.vector.utils import batch_space

from mlgo_gym.integrations.normalize_features import (
    GivenNormalization,
    given_normalization,
    normalize,
    normalized_space,
)

if TYPE_CHECKING:
    _VectorWrapper = gym.vector.VectorWrapper[Any, Any, Any]  # type: ignore[type-arg, unused-ignore]
else:
    # Before gymnasium 1.3 it takes no types.
    _VectorWrapper = gym.vector.VectorWrapper


class NormalizeFeatures(_VectorWrapper):
    """Normalizes the flat observations of a vector environment, as its namesake does those of a single one.

    Arguments, attributes and errors are the same. The last observations of episodes, `info["final_obs"]`, are
    normalized too. EnvPool's `async_reset()`, `send()` and `recv()` are those of the environment inside.
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], normalization: GivenNormalization) -> None:
        super().__init__(env)
        self.normalization = given_normalization(normalization)
        self.feature_names = self.normalization.names
        inner: Any = env.unwrapped
        self._columns = self.normalization.columns(inner.feature_names)
        self.single_observation_space = normalized_space(env.single_observation_space, self.normalization)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)

    def reset(  # type: ignore[override, unused-ignore]
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environments, and return normalized observations."""
        env: Any = self.env  # Gymnasium's own vector environments take lists of seeds, its interface says int
        observations, infos = env.reset(seed=seed, options=options)
        return self._normalize(observations), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the environments, and return normalized observations, also the last ones of episodes that ended."""
        return self._normalize_step(*self.env.step(actions))

    def async_reset(self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None) -> None:
        """Start an episode in every environment; `recv()` returns each when it is ready."""
        env: Any = self.env
        env.async_reset(seed=seed, options=options)

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Answer the decisions of some environments, by default those of the last `recv()`, and return at once."""
        env: Any = self.env
        env.send(actions, env_ids)

    def recv(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Return the first environments that are ready, with normalized observations."""
        env: Any = self.env
        return self._normalize_step(*env.recv())

    def _normalize_step(
        self, observations: Any, rewards: Any, terminations: Any, truncations: Any, infos: dict[str, Any]
    ) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        if "final_obs" in infos:
            for row, last in enumerate(infos["final_obs"]):
                if last is not None:
                    infos["final_obs"][row] = self._normalize(last)
        return self._normalize(observations), rewards, terminations, truncations, infos

    def _normalize(self, observations: Any) -> Any:
        return normalize(observations, self.normalization, self._columns)
