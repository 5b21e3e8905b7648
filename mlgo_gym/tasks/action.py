"""What an agent hands over as an action: a number, or an array of one."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.errors import ActionError


def read_action(action: Any, space: gym.Space[Any]) -> int | float:
    """Return an action as a plain number: an int for a discrete space, a float (of float32's precision) for a box.

    Whether it is legal is another question.

    Args:
        action: a number, or an array or tensor with one element, as batches of one leave it.
        space: the action space: `Discrete`, or a `Box` of one element.

    Raises:
        ActionError: it is no number, several, or for a discrete space no whole one.
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
        return np.float32(value).item()
    if not float(value).is_integer():
        raise _refusal(action, space)
    return int(value)


def _refusal(action: Any, space: gym.Space[Any]) -> ActionError:
    return ActionError(f"an action was wanted, an element of {space}; found {action!r}, a {type(action).__name__}")
