"""The tensors that a foreign model takes and gives, bound to an environment by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import PolicyError
from mlgo_gym.policies.choice import chooser
from mlgo_gym.policies.observation_samples import flat_part

Read = Callable[[Any], npt.NDArray[Any]]
"""Takes an observation and returns one tensor."""

TRAINING_ONLY = ("discount", "reward", "step_type")
"""Inputs of TF-Agents policies that mean nothing at inference; they are 0 (llvm/lib/Analysis/MLInlineAdvisor.cpp)."""

_MASK = "mask"


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """One tensor of a model.

    Attributes:
        name: its name, which is that of a feature.
        shape: its dimensions; what is not fixed is 1.
        dtype: the type of an element.
        batched: whether its first dimension is not fixed, but as long as the batch.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    batched: bool = False


def bind_inputs(policy: str, env: CompilerEnv, tensors: Sequence[ModelTensor]) -> list[Read]:
    """Return how each input of a model is read from an observation.

    A model may know fewer features than there are. Its only input may also be the whole flat observation, whatever its
    name is.

    Args:
        policy: the policy's name, for the error.
        env: the environment that the observations come from.
        tensors: the model's inputs.

    Raises:
        PolicyError: a feature is not there, or has another size.
    """
    found = [_find(env, tensor) for tensor in tensors]
    if len(tensors) == 1 and found[0] is None and _is_flat(env):
        tensor = tensors[0]
        if math.prod(tensor.shape) == len(env.feature_names):
            return [lambda observation: flat_part(observation).astype(tensor.dtype).reshape(tensor.shape)]
    missing = [tensor for tensor, read in zip(tensors, found, strict=True) if read is None]
    if missing:
        listed = ", ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in missing)
        raise PolicyError(
            f"the policy {policy!r} wants {len(missing)} features that are not there: {listed}; there are "
            f"{', '.join(env.feature_names)}: use the compiler that it was trained with, or train it anew"
        )
    return [read for read in found if read is not None]


def bind_output(policy: str, env: CompilerEnv, tensor: ModelTensor) -> Callable[[npt.NDArray[Any], Any], Any]:
    """Return how an action is made of a model's output and the action mask.

    One integer is the action; anything else is what `chooser` takes: a number for each action, or the action itself.

    Args:
        policy: the policy's name, for the error.
        env: the environment.
        tensor: the output.

    Raises:
        PolicyError: the output is no action of the environment.
    """
    size = math.prod(tensor.shape)
    if tensor.dtype.kind in "iu" and size == 1 and isinstance(env.action_space, gym.spaces.Discrete):
        return lambda output, mask: _one_of(env, policy, int(output.reshape(-1)[0]))  # noqa: ARG005 - one of two
    choose = chooser(policy, env, size)
    return lambda output, mask: choose(output.reshape(-1), mask)


def _one_of(env: CompilerEnv, policy: str, action: int) -> int:
    if not env.action_space.contains(action):
        raise PolicyError(f"the policy {policy!r} was to decide on one of {env.action_space}, and answers {action}")
    return action


def _is_flat(env: CompilerEnv) -> bool:
    space = env.observation_space
    return not isinstance(space, gym.spaces.Dict) or "observations" in space.spaces


def _find(env: CompilerEnv, tensor: ModelTensor) -> Read | None:
    size, dtype, shape = math.prod(tensor.shape), tensor.dtype, tensor.shape
    if tensor.name in TRAINING_ONLY and size == 1:
        zeros = np.zeros(shape, dtype)
        return lambda observation: zeros  # noqa: ARG005 - one of several readers
    space = env.observation_space
    name = tensor.name
    if isinstance(space, gym.spaces.Dict):
        key = "action_mask" if name == _MASK and "action_mask" in space.spaces else name
        if key in space.spaces and math.prod(space[key].shape or (1,)) == size:
            return lambda observation: np.asarray(observation[key]).astype(dtype).reshape(shape)
    if not _is_flat(env):
        return None
    first = name if name in env.feature_names else f"{name}[0]"
    if first not in env.feature_names:
        return None
    start = env.feature_names.index(first)
    columns = sum(each == name or each.startswith(f"{name}[") for each in env.feature_names)
    if columns != size:
        return None
    return lambda observation: flat_part(observation)[start : start + size].astype(dtype).reshape(shape)
