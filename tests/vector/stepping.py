"""Steps vector environments, ours and Gymnasium's."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mlgo_gym.testing import running_compile
from mlgo_gym.vector_env import CompilerVectorEnv, as_vector
from tests.traces import ends_within

INLINE = "mlgo/Inline-v0"
EVICT = "mlgo/RegAllocEvict-v0"

Stepped = tuple[Any, ...]


def make(name: str, corpus: str, num_envs: int = 3, **options: Any) -> CompilerVectorEnv:
    """Return our vector environment."""
    return as_vector(gym.make_vec(name, num_envs=num_envs, corpus=corpus, **options))


def make_sync(
    name: str, corpus: str, num_envs: int = 3, mode: AutoresetMode = AutoresetMode.NEXT_STEP, **options: Any
) -> SyncVectorEnv:
    """Return Gymnasium's vector environment of single environments."""
    return SyncVectorEnv([lambda: gym.make(name, corpus=corpus, **options)] * num_envs, autoreset_mode=mode)


def play(envs: gym.vector.VectorEnv[Any, Any, Any], steps: int, seed: int = 3) -> Iterator[Stepped]:
    """Yield the results of `reset()` and of each `step()`; half of the actions are default actions, half are random.

    With DISABLED autoreset, finished environments are reset.
    """
    envs.action_space.seed(seed)
    observations, info = envs.reset(seed=seed)
    yield observations, info
    over = np.zeros(envs.num_envs, np.bool_)
    for step in range(steps):
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and over.any():
            observations, info = envs.reset(options={"reset_mask": over.copy()})
            yield observations, info
        actions = envs.action_space.sample()
        if step % 2 and "default_action" in info:
            present = info["_default_action"]
            actions[present] = info["default_action"][present]
        observations, rewards, terminations, truncations, info = envs.step(actions)
        over = terminations | truncations
        yield observations, rewards, terminations, truncations, info


def assert_equal(ours: Stepped, theirs: Stepped) -> None:
    """Compare the results of both, without the keys that only ours has."""
    *values, info = ours
    *expected, expected_info = theirs
    assert data_equivalence(tuple(values), tuple(expected), exact=True)
    info = {key: value for key, value in info.items() if key != "env_id"}
    for key in ("default_action", "action_mask"):
        if key in info and not info[f"_{key}"].any():
            del info[key], info[f"_{key}"]
    assert data_equivalence(info, expected_info, exact=True), (info, expected_info)


def row_info(info: dict[str, Any], row: int) -> dict[str, Any]:
    """Return the info of one row of a batch."""
    found = {}
    for key, value in info.items():
        if f"_{key}" in info and info[f"_{key}"][row]:
            found[key] = row_info(value, row) if isinstance(value, dict) else value[row]
    return found


def clang_of(env: Any, number: int | None = None) -> int:
    """Return the process id of the compile of an environment, or of one in a vector environment."""
    return running_compile(env, number).pid


def end_clang(env: Any, number: int | None = None) -> None:
    """Let an environment's compile crash, and wait until it has."""
    pid = clang_of(env, number)
    os.kill(pid, signal.SIGSEGV)
    assert ends_within(pid, 10)
