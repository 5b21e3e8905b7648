"""Tensors of a foreign model, bound to an environment by name."""

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
from mlgo_gym.policies.features import chooser, flat_part

Read = Callable[[Any], npt.NDArray[Any]]
"""Takes an observation and returns one tensor."""

TRAINING_ONLY = ("discount", "reward", "step_type")
"""Inputs of TF-Agents policies without meaning at inference; they are 0 (llvm/lib/Analysis/MLInlineAdvisor.cpp)."""

_MASK = "mask"


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """One tensor of a model.

    Attributes:
        name: its name; for an input, the name of a feature.
        shape: its dimensions; 1 for a free dimension.
        dtype: type of an element.
        batched: whether its first dimension is free, for batches.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    batched: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def bind_inputs(policy: str, env: CompilerEnv, tensors: Sequence[ModelTensor]) -> list[Read]:
    """Return for each input of a model the function that reads it from an observation.

    A model may use fewer features than the environment has. A single input of the right size may also be the whole flat
    observation, with any name.

    Raises:
        PolicyError: a feature is missing, or has another size.
    """
    found = [_find(env, tensor) for tensor in tensors]
    if len(tensors) == 1 and found[0] is None and tensors[0].size == len(env.feature_names):
        (tensor,) = tensors
        return [lambda observation: flat_part(observation).astype(tensor.dtype).reshape(tensor.shape)]
    missing = [tensor for tensor, read in zip(tensors, found, strict=True) if read is None]
    if missing:
        listed = ", ".join(f"{tensor.name} {list(tensor.shape)}" for tensor in missing)
        raise PolicyError(
            f"the policy {policy!r} needs {len(missing)} features that are missing: {listed}; got "
            f"{', '.join(env.feature_names)}; use the compiler that it was trained with"
        )
    return [read for read in found if read is not None]


def bind_output(policy: str, env: CompilerEnv, tensor: ModelTensor) -> Callable[[npt.NDArray[Any], Any], Any]:
    """Return a function from a model's output and the action mask to an action.

    One integer is the action; other outputs are those of `chooser()`.

    Raises:
        PolicyError: the output is no action of the environment.
    """
    if tensor.dtype.kind in "iu" and tensor.size == 1 and isinstance(env.action_space, gym.spaces.Discrete):
        return lambda output, mask: _checked(env, policy, int(output.reshape(-1)[0]))  # noqa: ARG005 - one of two
    choose = chooser(policy, env, tensor.size)
    return lambda output, mask: choose(output.reshape(-1), mask)


def _checked(env: CompilerEnv, policy: str, action: int) -> int:
    if not env.action_space.contains(action):
        raise PolicyError(f"expected an action of {env.action_space}, got {action} from the policy {policy!r}")
    return action


def _find(env: CompilerEnv, tensor: ModelTensor) -> Read | None:
    size, dtype, shape, name = tensor.size, tensor.dtype, tensor.shape, tensor.name
    if name in TRAINING_ONLY and size == 1:
        zeros = np.zeros(shape, dtype)
        return lambda observation: zeros  # noqa: ARG005 - one of several readers
    space = env.observation_space
    if isinstance(space, gym.spaces.Dict):
        key = "action_mask" if name == _MASK and "action_mask" in space.spaces else name
        if key in space.spaces and math.prod(space[key].shape or (1,)) == size:
            return lambda observation: np.asarray(observation[key]).astype(dtype).reshape(shape)
    first = name if name in env.feature_names else f"{name}[0]"
    if first not in env.feature_names:
        return None
    start = env.feature_names.index(first)
    if sum(each == name or each.startswith(f"{name}[") for each in env.feature_names) != size:
        return None
    return lambda observation: flat_part(observation)[start : start + size].astype(dtype).reshape(shape)
