"""A limit of steps ends an episode without a reward: say so, and what to do instead."""

from __future__ import annotations

import inspect
import warnings

from gymnasium.wrappers import TimeLimit


def warn_of_step_limit() -> None:
    """Warn where the `reset()` that is under way is one of a `TimeLimit`, as `max_episode_steps` makes one.

    An environment knows nothing of its wrappers, and `gymnasium.make` tells it nothing of that argument: the frames of
    the callers do.
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
