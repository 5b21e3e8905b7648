"""Observations recorded under clang's own choices, on which normalizations are fitted."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.features import flat_part
from mlgo_gym.policies.normalization import Floats, Normalization


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


def fit_normalization(env: gym.Env[Any, Any], method: str = "log_standard", **sample: int) -> Normalization:
    """Return a normalization fitted on the environment's corpus, under clang's own choices.

    `method` is one of `mlgo_gym.policies.normalization.METHODS`; `sample` has the arguments of `record_observations()`.

    Raises:
        MlgoError: as in `record_observations()` and `Normalization.fit()`.
    """
    rows = record_observations(env, **sample)
    inner: Any = env.unwrapped
    return Normalization.fit(rows, inner.feature_names, method)
