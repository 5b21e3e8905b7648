"""Observations of an environment, recorded while clang's own choices are taken: what normalizations are fitted on."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.normalization import Normalization


def flat_part(observation: Any) -> npt.NDArray[np.float32]:
    """Return the flat vector of an observation, which may lie beside an action mask."""
    vector: npt.NDArray[np.float32] = observation["observations"] if isinstance(observation, dict) else observation
    return vector


def check_flat(space: gym.Space[Any]) -> None:
    """Check that observations are flat vectors, alone or beside an action mask.

    Raises:
        MlgoError: they are raw tensors.
    """
    if isinstance(space, gym.spaces.Dict) and "observations" not in space.spaces:
        raise MlgoError(
            f"flat observations were wanted, found the tensors {', '.join(space.spaces)}; make the environment with "
            'observation="flat"'
        )


def record_observations(
    env: gym.Env[Any, Any], *, observations: int = 20_000, per_episode: int = 1_000, seed: int = 0
) -> npt.NDArray[np.float32]:
    """Return observations of modules sampled from the environment's corpus, under clang's own choices.

    Args:
        env: an environment of mlgo-gym with flat observations, wrapped or not; it is reset.
        observations: how many to record.
        per_episode: at most so many of one episode, so that no large module outweighs all others.
        seed: what the sample of modules depends on.

    Returns:
        float32 of shape (observations, features).

    Raises:
        MlgoError: a number is below 1, the observations are not flat, or no module has a decision.
    """
    if observations < 1 or per_episode < 1:
        raise MlgoError(f"one observation or more was wanted, found {observations}, {per_episode} of an episode")
    inner = env.unwrapped
    if not isinstance(inner, CompilerEnv):
        raise MlgoError(f"an environment of mlgo-gym was wanted, found {type(inner).__name__}; make one")
    check_flat(inner.observation_space)
    rows = np.empty((observations, len(inner.feature_names)), np.float32)
    filled = 0
    observation, info = inner.reset(seed=seed)
    here = 0
    while True:
        rows[filled] = flat_part(observation)
        filled += 1
        here += 1
        if filled == observations:
            inner.close()
            return rows
        observation, _, terminated, truncated, info = inner.step(info["default_action"])
        if terminated or truncated or here == per_episode:
            observation, info = inner.reset()
            here = 0


def fit_normalization(
    env: gym.Env[Any, Any],
    method: str = "log_standard",
    *,
    observations: int = 20_000,
    per_episode: int = 1_000,
    seed: int = 0,
) -> Normalization:
    """Return a normalization fitted on the environment's corpus, under clang's own choices.

    Args:
        env: an environment of mlgo-gym with flat observations, wrapped or not; it is reset.
        method: one of `mlgo_gym.policies.normalization.METHODS`.
        observations: how many decisions to fit on.
        per_episode: at most so many of one episode.
        seed: what the sample of modules depends on.

    Raises:
        MlgoError: as `record_observations()` and `Normalization.fit()` do.
    """
    rows = record_observations(env, observations=observations, per_episode=per_episode, seed=seed)
    inner: Any = env.unwrapped
    return Normalization.fit(rows, inner.feature_names, method)
