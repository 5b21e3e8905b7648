"""Steps vector environments, ours and Gymnasium's."""

import os
import signal
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mlgo_gym.vector_env import CompilerVectorEnv, as_vector
from tests.fakes.compiles import running_compile
from tests.traces import ends_within

INLINE = "mlgo/Inline-v0"
EVICT = "mlgo/RegAllocEvict-v0"


def make(name: str, corpus: str, num_envs: int = 3, **options: Any) -> CompilerVectorEnv:
    """Return our vector environment."""
    return as_vector(gym.make_vec(name, num_envs=num_envs, corpus=corpus, **options))


def make_sync(
    name: str, corpus: str, num_envs: int = 3, mode: AutoresetMode = AutoresetMode.NEXT_STEP, **options: Any
) -> SyncVectorEnv:
    """Return Gymnasium's vector environment of single environments."""
    return SyncVectorEnv([lambda: gym.make(name, corpus=corpus, **options)] * num_envs, autoreset_mode=mode)


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
