"""An environment by its id, as the evaluation and its like make it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

import mlgo_gym
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError


def make_environment(name: str, arguments: Mapping[str, Any]) -> CompilerEnv:
    """Return an environment of mlgo-gym, without wrappers.

    Args:
        name: its id.
        arguments: its arguments.

    Raises:
        MlgoError: there is no such environment, it is none of ours, or it does not take the arguments.
    """
    try:
        env = gym.make(name, disable_env_checker=True, **arguments).unwrapped
    except gym.error.Error as error:
        known = ", ".join(mlgo_gym.ENVIRONMENTS)
        raise MlgoError(f"there is no environment {name!r} ({error}); there are {known}") from error
    except TypeError as error:
        raise MlgoError(f"{name} does not take the arguments {dict(arguments)}: {error}; correct them") from error
    if not isinstance(env, CompilerEnv):
        raise MlgoError(f"an environment of mlgo-gym was wanted, and {name} is {type(env).__name__}; choose another")
    return env
