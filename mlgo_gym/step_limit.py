"""A warning about step limits, which end episodes before they have a reward."""

from __future__ import annotations

import inspect
import warnings

from gymnasium.wrappers import TimeLimit


def warn_of_step_limit() -> None:
    """Warn if a `TimeLimit` wrapper, which `max_episode_steps` adds, called the current `reset()`.

    An environment does not know its wrappers, so this function inspects the stack frames of its callers.
    """
    frame = inspect.currentframe()
    while frame is not None:
        wrapper = frame.f_locals.get("self")
        if isinstance(wrapper, TimeLimit):
            limit = wrapper._max_episode_steps
            warnings.warn(
                f"max_episode_steps={limit} ends long episodes without a reward, before there is an object file; use "
                f"max_decisions={limit} instead, after which clang decides and the reward is real",
                stacklevel=3,
            )
            return
        frame = frame.f_back
