"""Runs episodes."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import gymnasium as gym

from tests.fakes.compiles import running_compile

Choose = Callable[[dict[str, Any]], Any]

default_action: Choose = itemgetter("default_action")


class Step(NamedTuple):
    """Result of a step."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def finish(env: gym.Env[Any, Any], info: dict[str, Any], choose: Choose = default_action) -> list[Step]:
    """Run an episode from a pending decision, by its info, to the end; return its steps."""
    steps: list[Step] = []
    while not steps or not (steps[-1].terminated or steps[-1].truncated):
        steps.append(Step(*env.step(choose(info))))  # type: ignore[arg-type] # a float, of any kind
        info = steps[-1].info
    return steps


def run(
    env: gym.Env[Any, Any], choose: Choose = default_action, *, seed: int | None = None, **options: Any
) -> tuple[list[dict[str, Any]], Step]:
    """Run an episode; return the infos of its decisions, and its last step. The environment stays open."""
    _, info = env.reset(seed=seed, options=options)
    steps = finish(env, info, choose)
    return [info, *(step.info for step in steps[:-1])], steps[-1]


def play(
    env: gym.Env[Any, Any], actions: Any = None, *, module: str | None = None, seed: int | None = None
) -> list[Step]:
    """Run one episode to its end, and close the environment; return its steps.

    `actions` is one action for every decision, or a list of actions; None, also in the list, is the default action.
    """
    sequence = iter(actions) if isinstance(actions, Sequence) else None

    def choose(info: dict[str, Any]) -> Any:
        action = actions if sequence is None else next(sequence)
        return info["default_action"] if action is None else action

    _, info = env.reset(seed=seed, options=None if module is None else {"module": module})
    try:
        return finish(env, info, choose)
    finally:
        env.close()


def failed_end(env: gym.Env[Any, Any], module: str | None = None) -> Step:
    """Start an episode whose compile is killed at its first decision, and return its only step."""
    _, info = env.reset(seed=1, options=None if module is None else {"module": module})
    running_compile(env).kill()
    step = Step(*env.step(info["default_action"]))  # type: ignore[arg-type] # a float, of any kind
    assert (step.terminated, step.truncated) == (True, False)
    return step
