"""The manual pages list the keys of `info` that episodes have."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

from mlgo_gym.env import CompilerEnv
from mlgo_gym.make_env import compiler_environments
from mlgo_gym.tasks.info_reference import DECISION, END, FAILURE, FIRST, info_keys


def documented(env: CompilerEnv, when: str, *, always: bool = False) -> set[str]:
    """The keys that are said to be there at a time, or those that are said to be there each time."""
    keys = info_keys(env.task)
    return {key.name for key in keys if when in key.when.split(", ") and not (always and key.condition)}


def made(name: str, **options: Any) -> CompilerEnv:
    env = gym.make(name, **options).unwrapped
    assert isinstance(env, CompilerEnv)
    return env


@pytest.mark.parametrize("name", compiler_environments())
def test_an_episode_has_the_keys_that_are_documented_and_no_others(name: str, varied: str) -> None:
    env = made(name, corpus=varied, compile_options={"echo_reply": True}, max_decisions=3)
    _, info = env.reset(options={"module": "mixed"})
    over = False
    while not over:
        assert documented(env, DECISION, always=True) <= {*info} <= documented(env, DECISION) | documented(env, FIRST)
        _, _, over, _, info = env.step(info["default_action"])
    assert documented(env, END, always=True) <= {*info} <= documented(env, END)
    assert {"stderr", "text"} <= {*info}
    env.close()


@pytest.mark.parametrize("name", ["mlgo/RegAllocEvict-v0", "mlgo/RegAllocPriority-v0"])
def test_an_episode_of_a_function_has_the_keys_that_are_documented(name: str, varied: str) -> None:
    env = made(name, corpus=varied, scope="function", max_decisions=2)
    _, info = env.reset(seed=0)
    over = False
    while not over:
        _, _, over, _, info = env.step(info["default_action"])
    assert documented(env, END, always=True) <= {*info} <= documented(env, END)
    assert "text" not in info
    env.close()


def test_an_episode_that_failed_has_the_keys_that_are_documented(varied: str) -> None:
    env = made("mlgo/Inline-v0", corpus=varied)
    env.reset(options={"module": "mixed"})
    stepper = env._stepper
    assert stepper is not None
    stepper.episode.session.kill()
    *_, truncated, info = env.step(0)
    assert truncated
    assert documented(env, FAILURE, always=True) <= {*info} <= documented(env, FAILURE)
    assert {*info["error"]} == {"kind", "message", "exit_status", "stderr"}
    env.close()
