"""Runs episodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium as gym

from mlgo_gym.testing import running_compile


class Step(NamedTuple):
    """Result of a step."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def play(
    env: gym.Env[Any, Any],
    actions: Any = None,
    *,
    module: str | None = None,
    seed: int | None = None,
) -> list[Step]:
    """Run one episode to its end, and close the environment.

    Args:
        env: The environment.
        actions: One action for every decision, or a list of actions; None for the default actions.
        module: Name of the module; None samples one.
        seed: Seed of the sample.
    """
    _, info = env.reset(seed=seed, options=None if module is None else {"module": module})
    steps: list[Step] = []
    try:
        while not steps or not (steps[-1].terminated or steps[-1].truncated):
            action = actions[len(steps)] if isinstance(actions, Sequence) else actions
            observation, reward, terminated, truncated, info = env.step(
                info["default_action"] if action is None else action
            )
            steps.append(Step(observation, float(reward), terminated, truncated, info))
    finally:
        env.close()
    return steps


def failed_end(env: gym.Env[Any, Any], module: str | None = None) -> Step:
    """Start an episode whose compile is killed at its first decision, and return its only step."""
    _, info = env.reset(seed=1, options=None if module is None else {"module": module})
    running_compile(env).kill()
    step = Step(*env.step(info["default_action"]))  # type: ignore[arg-type] # a float, of any kind
    assert step.truncated
    return step
