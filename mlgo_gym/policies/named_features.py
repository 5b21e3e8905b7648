"""How a model finds its features by name in an observation, as LLVM's rule for versions of models says.

A model that knows fewer features than the compiler gives works; one that wants a feature that the compiler lacks is
refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.policies.normalization import Floats, feature_columns
from mlgo_gym.policies.observation_samples import flat_part

_MASK = "action_mask"


def feature_vector(policy: str, env: CompilerEnv, wanted: Sequence[str]) -> Callable[[Any], Floats]:
    """Return a function that takes an observation and returns some of its features.

    Args:
        policy: the policy's name, for the error.
        env: the environment that the observations come from: flat ones, alone or beside an action mask, or
            dictionaries of raw tensors.
        wanted: the names of the features, as `feature_names` has them; and `action_mask[0]`, `action_mask[1]`, … for
            a model that sees the mask too.

    Returns:
        From an observation to float32 of shape (wanted,).

    Raises:
        PolicyError: the environment lacks some of the features; it lists them.
    """
    space = env.observation_space
    mask = [name for name in wanted if name.startswith(f"{_MASK}[")]
    if mask:
        size = len(space[_MASK].sample()) if isinstance(space, gym.spaces.Dict) and _MASK in space.spaces else 0
        mask = [f"{_MASK}[{action}]" for action in range(size)]
    try:
        columns = feature_columns(f"the policy {policy!r}", wanted, [*mask, *env.feature_names])
    except MlgoError as error:
        raise PolicyError(str(error)) from None
    if isinstance(space, gym.spaces.Dict) and "observations" not in space.spaces:
        return _from_tensors(wanted)
    if mask:
        return lambda observation: np.concatenate([observation[_MASK], observation["observations"]])[columns]
    if np.array_equal(columns, np.arange(len(env.feature_names))):
        return flat_part
    return lambda observation: flat_part(observation)[columns]


def _from_tensors(wanted: Sequence[str]) -> Callable[[Any], Floats]:
    places = [_place(name) for name in wanted]

    def vector(observation: Any) -> Floats:
        return np.array([observation[name].flat[column] for name, column in places], np.float32)

    return vector


def _place(name: str) -> tuple[str, int]:
    """Return the tensor and the column that an element of a flat observation comes from."""
    tensor, bracket, column = name.partition("[")
    return tensor, int(column[:-1]) if bracket else 0
