"""From the outputs of a network to an action, as the action space and the mask say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.policies.fitting import misfit
from mlgo_gym.policies.normalization import Floats

Chooser = Callable[[Floats, Any], Any]
"""Takes outputs, shape (outputs,), and the action mask or None, and returns an action."""


def chooser(policy: str, env: CompilerEnv, outputs: int) -> Chooser:
    """Return a function from a network's outputs to an action.

    For n actions there are n outputs, of which the largest legal one is taken; for no and yes there may be one, which
    is the logit of yes. For a Box the outputs are the action, kept within its bounds.

    Args:
        policy: the policy's name, for the error.
        env: the environment.
        outputs: how many outputs there are.

    Raises:
        PolicyError: they are not as many as the action space needs.
    """
    space = env.action_space
    if isinstance(space, gym.spaces.Discrete) and space.start == 0:
        if outputs == 1 and space.n == 2:
            return lambda values, mask: int(values[0] > 0)  # noqa: ARG005 - one of several choosers
        if outputs == space.n:
            return _largest
    if isinstance(space, gym.spaces.Box) and space.shape == (outputs,):
        low, high, dtype = space.low, space.high, space.dtype
        return lambda values, mask: np.clip(values, low, high).astype(dtype)  # noqa: ARG005 - likewise
    raise misfit(policy, f"as many actions as its {outputs} outputs", f"the actions {space}")


def _largest(values: Floats, mask: Any) -> int:
    if mask is not None:
        values = np.where(mask, values, -np.inf)
    return int(values.argmax())
