"""A limit of steps ends an episode without a reward: say so, and say what to do instead."""

from __future__ import annotations

import inspect
import warnings

from gymnasium.wrappers import TimeLimit


def warn_of_step_limit() -> None:
    """Warn if the current `reset()` was called by a `TimeLimit`, which is what `max_episode_steps` adds.

    An environment does not know its wrappers, and `gymnasium.make` does not pass that argument on, so the callers'
    stack frames are looked at.
    """
    frame = inspect.currentframe()
    while frame is not None:
        wrapper = frame.f_locals.get("self")
        if isinstance(wrapper, TimeLimit):
            limit = wrapper._max_episode_steps
            warnings.warn(
                f"max_episode_steps={limit} ends long episodes without a reward: there is no object file yet. Leave it "
                f"away and give max_decisions={limit}, after which clang decides by itself and the reward is real",
                stacklevel=3,
            )
            return
        frame = frame.f_back
