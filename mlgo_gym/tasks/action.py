"""Reads the action of an agent: a number, or an array of one element."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.errors import ActionError


def read_action(action: Any, space: gym.Space[Any]) -> int | float:
    """Return an action as a plain number: an int for a discrete space, a float (of float32's precision) for a `Box`.

    It does not check whether the action is legal. An array or tensor of one element is a number, as batches leave it.

    Raises:
        ActionError: the action is not one number, it is NaN, or it is not a whole number for a discrete space.
    """
    value = action
    if not isinstance(value, (int, float, np.generic)):
        try:
            array = np.asarray(value)
        except (TypeError, ValueError, RuntimeError):
            raise _refusal(action, space) from None
        if array.size != 1:
            raise _refusal(action, space)
        value = array.reshape(-1)[0]
    if not isinstance(value, (int, float, np.integer, np.floating, np.bool_)):
        raise _refusal(action, space)
    if not isinstance(space, gym.spaces.Discrete):
        if math.isnan(value):
            raise ActionError(f"expected an action, an element of {space}, got NaN; the policy has diverged")
        return np.float32(value).item()
    if not float(value).is_integer():
        raise _refusal(action, space)
    return int(value)


def _refusal(action: Any, space: gym.Space[Any]) -> ActionError:
    return ActionError(
        f"expected an action, an element of {space}, got {action!r}, a {type(action).__name__}; pass one number"
    )
