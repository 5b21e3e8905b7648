"""`NormalizeFeatures`: an environment whose features are of similar size, by a table that is fitted on observations."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.network import CLIP, Floats, Normalization
from mlgo_gym.policies.protocol import flat_part


class FlatNormalizer:
    """Normalizes the flat part of observations, alone or beside an action mask, and of batches of them.

    `names` are those of the raw features, of which the normalization may know fewer; `space` is that of the raw
    observations of one environment, and as an attribute that of normalized ones.
    """

    def __init__(
        self, normalization: Normalization | Mapping[str, Any] | None, names: Sequence[str], space: gym.Space[Any]
    ) -> None:
        if normalization is None:
            normalization = Normalization.logarithms(names)
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

    Without a normalization it scales the logarithms of all features, which needs no fit: `NormalizeFeatures(env)`.

    Args:
        env: An environment of mlgo-gym.
        normalization: A fitted normalization, or its JSON data. Default: `Normalization.logarithms()` of all features.

    Attributes:
        normalization: The normalization.
        feature_names: Name of each element of an observation.

    Raises:
        MlgoError: The observations lack a feature.
    """

    def __init__(self, env: gym.Env[Any, Any], normalization: Normalization | Mapping[str, Any] | None = None) -> None:
        self._normalize = FlatNormalizer(normalization, env.get_wrapper_attr("feature_names"), env.observation_space)
        self.normalization = self._normalize.normalization
        RecordConstructorArgs.__init__(self, normalization=self.normalization.to_json())
        super().__init__(env)
        self.feature_names = self.normalization.names
        self.observation_space = self._normalize.space

    def observation(self, observation: Any) -> Any:
        """Return the observation with its features normalized."""
        return self._normalize(observation)


def record_observations(
    env: gym.Env[Any, Any], *, observations: int = 20_000, per_episode: int = 1_000, seed: int = 0
) -> Floats:
    """Return observations of modules sampled from the environment's corpus, under clang's own choices.

    Args:
        env: an environment of mlgo-gym with flat observations, wrapped or not; it is reset.
        observations: number of observations (≥ 1).
        per_episode: maximum number of observations per episode (≥ 1), which limits the weight of large modules.
        seed: seed of the sample of modules.

    Returns:
        float32 of shape (observations, features).

    Raises:
        MlgoError: a number is below 1, the observations are not flat, or no module has a decision.
    """
    if observations < 1 or per_episode < 1:
        raise MlgoError(f"expected observations and per_episode ≥ 1, got {observations} and {per_episode}")
    inner = env.unwrapped
    if not isinstance(inner, CompilerEnv):
        raise MlgoError(f"expected an environment of mlgo-gym, got {type(inner).__name__}; make one with gym.make()")
    rows: list[Floats] = []
    observation, info = inner.reset(seed=seed)
    in_episode = 0
    while True:
        rows.append(flat_part(observation))
        in_episode += 1
        if len(rows) == observations:
            inner.close()
            return np.stack(rows)
        observation, _, terminated, truncated, info = inner.step(info["default_action"])
        if terminated or truncated or in_episode == per_episode:
            observation, info = inner.reset()
            in_episode = 0


def fit_normalization(env: gym.Env[Any, Any], **sample: int) -> Normalization:
    """Return a normalization fitted on the environment's corpus, under clang's own choices.

    `sample` has the arguments of `record_observations()`.

    Raises:
        MlgoError: as in `record_observations()` and `Normalization.fit()`.
    """
    rows = record_observations(env, **sample)
    inner: Any = env.unwrapped
    return Normalization.fit(rows, inner.feature_names)
