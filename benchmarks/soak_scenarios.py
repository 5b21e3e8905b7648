"""Scenarios of a soak: ways to run episodes and to disturb them; an unexpected outcome raises."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import ActionError, CompilerError, CorpusError
from mlgo_gym.vector_env import CompilerVectorEnv

CUT_OFF, DAMAGED = "cut-off", "damaged"
"""Names of the modules whose bitcode ends in the middle, and has an overwritten function."""

MAX_DECISIONS = 25
NUM_ENVS = 4
EPISODES = 8


class UnexpectedOutcomeError(AssertionError):
    """An episode had another outcome than its scenario expects."""


class Environments:
    """The environments of one registered id that live as long as the soak.

    Args:
        env_id: the registered id.
        corpus: the folder of modules.
        chance: random generator of actions, modules and faults.
        tally: counts events.
    """

    def __init__(self, env_id: str, corpus: str, chance: np.random.Generator, tally: Counter[str]) -> None:
        self.env_id = env_id
        self.chance = chance
        self.tally = tally
        self.arguments: dict[str, Any] = {"corpus": corpus, "max_decisions": MAX_DECISIONS}
        self.has_functions = "Joint" not in env_id
        self.allocates = "RegAlloc" in env_id
        self._kept: dict[str, gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]] = {}

    def make(self, **arguments: Any) -> CompilerEnv:
        """Return a new environment without wrappers."""
        env = gym.make(self.env_id, **{**self.arguments, **arguments}).unwrapped
        assert isinstance(env, CompilerEnv)
        return env

    def make_vector(self, **arguments: Any) -> CompilerVectorEnv:
        """Return a new vector environment with started episodes."""
        envs = gym.make_vec(self.env_id, NUM_ENVS, **{**self.arguments, **arguments})
        assert isinstance(envs, CompilerVectorEnv)
        envs.async_reset(seed=int(self.chance.integers(1 << 31)))
        return envs

    def single(self, name: str, **arguments: Any) -> CompilerEnv:
        """Return the environment that is kept under a name."""
        if name not in self._kept:
            self._kept[name] = self.make(**arguments)
        env = self._kept[name]
        assert isinstance(env, CompilerEnv)
        return env

    def vector(self, name: str, **arguments: Any) -> CompilerVectorEnv:
        """Return the vector environment that is kept under a name."""
        if name not in self._kept:
            self._kept[name] = self.make_vector(**arguments)
        envs = self._kept[name]
        assert isinstance(envs, CompilerVectorEnv)
        return envs

    def action(self, env: CompilerEnv, info: dict[str, Any]) -> Any:
        """Return clang's own choice, a random legal action, or sometimes an illegal one."""
        kind = self.chance.random()
        if kind < 0.5:
            return info["default_action"]
        if kind < 0.98 and "action_mask" in info:
            return int(self.chance.choice(np.flatnonzero(info["action_mask"])))
        return env.action_space.sample()

    def finish(self, env: CompilerEnv, info: dict[str, Any]) -> None:
        """Run an episode to its end."""
        terminated = truncated = False
        while not (terminated or truncated):
            *_, terminated, truncated, info = env.step(self.action(env, info))
            self.tally["illegal actions"] += bool(info.get("illegal_action"))
        if truncated:
            self.check_killed(info["error"])

    def check_killed(self, error: dict[str, Any]) -> None:
        """Check that an episode failed because this program killed a clang, which may have been any."""
        self.tally["truncated"] += 1
        if error["exit_status"] != -signal.SIGKILL or self.tally["truncated"] > self.tally["clangs killed"]:
            raise UnexpectedOutcomeError(f"{self.env_id}: {error}")

    def close(self) -> None:
        """Close all environments that are kept."""
        for env in self._kept.values():
            env.close()
        self._kept.clear()


def _episodes(envs: Environments, env: CompilerEnv) -> int:
    for _ in range(EPISODES):
        envs.finish(env, env.reset()[1])
    return EPISODES


def _fork_resets(envs: Environments) -> int:
    options = {"fork_resets": True, **({"preoptimize": False} if envs.allocates else {})}
    return _episodes(envs, envs.single("fork resets", compile_options=options))


def _fresh(envs: Environments) -> int:
    env = envs.make()
    envs.finish(env, env.reset(seed=int(envs.chance.integers(1 << 31)))[1])
    env.close()
    return 1


def _forked(envs: Environments) -> int:
    env = envs.single("long-lived")
    _, info = env.reset()
    running = [(env, info)]
    episodes = 0
    while running:
        each, info = running.pop(int(envs.chance.integers(len(running))))
        if len(running) < 3 and episodes < 3 and envs.chance.random() < 0.2:
            running.append((each.fork(), dict(info)))
            envs.tally["forks"] += 1
        *_, terminated, truncated, info = each.step(envs.action(each, info))
        if truncated:
            envs.check_killed(info["error"])
        if terminated or truncated:
            episodes += 1
        elif each is env or envs.chance.random() > 0.02:
            running.append((each, info))
            continue
        if each is not env:
            each.close()
    return episodes


def _steps(envs: Environments, vector: CompilerVectorEnv, count: int) -> int:
    """Take steps of a vector environment; return the number of episodes that ended."""
    episodes = 0
    for _ in range(count):
        _, _, terminated, truncated, infos = vector.recv()
        episodes += int((terminated | truncated).sum())
        for row in np.flatnonzero(truncated):
            final = infos.get("final_info", infos)
            envs.check_killed({"exit_status": int(final["error"]["exit_status"][row])})
        actions = [vector.single_action_space.sample() for _ in terminated]
        defaults = infos.get("default_action")
        if defaults is not None and envs.chance.random() < 0.8:
            actions = list(defaults)
        vector.send(np.asarray(actions))
    return episodes


def _fresh_vector(envs: Environments) -> int:
    vector = envs.make_vector()
    episodes = _steps(envs, vector, int(envs.chance.integers(1, 30)))
    vector.close()
    envs.tally["closed during episodes"] += NUM_ENVS
    return episodes


def _vector_killed(envs: Environments) -> int:
    vector = envs.vector("lock step")
    episodes = _steps(envs, vector, 5)
    if compilers := _compilers():
        _kill(envs, int(envs.chance.choice(compilers)))
    return episodes + _steps(envs, vector, 40)


def _compilers() -> list[int]:
    """Return the children of this process that are compilers with a channel."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        # Threads and compilers can end during the loop.
        with suppress(OSError):
            for child in task.joinpath("children").read_text().split():
                with suppress(OSError):
                    if b"interactive-channel-base" in Path("/proc", child, "cmdline").read_bytes():
                        found.append(int(child))
    return found


def _kill(envs: Environments, pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    envs.tally["clangs killed"] += 1


def _killed(envs: Environments) -> int:
    env = envs.single("killed", compile_options={"fork_resets": False})
    _, info = env.reset()
    for _ in range(int(envs.chance.integers(3))):
        *_, terminated, truncated, info = env.step(info["default_action"])
        if terminated:
            return 1
    assert env._episode is not None
    _kill(envs, env._episode.session.pid)
    terminated = truncated = False
    while not (terminated or truncated):
        *_, terminated, truncated, info = env.step(info["default_action"])
    if not truncated or info["error"]["kind"] != "signal":
        raise UnexpectedOutcomeError(f"{envs.env_id}: expected an error after SIGKILL, got {info}")
    envs.check_killed(info["error"])
    envs.finish(env, env.reset()[1])
    return 2


def _bad_modules(envs: Environments) -> int:
    env = envs.single("long-lived")
    for module in (CUT_OFF, DAMAGED):
        try:
            env.reset(options={"module": module})
        except (CompilerError, CorpusError):
            envs.tally["modules refused"] += 1
        else:
            raise UnexpectedOutcomeError(f"{envs.env_id}: expected an error for {module} bitcode, got an episode")
    envs.finish(env, env.reset()[1])
    return 1


def _wrong_actions(envs: Environments) -> int:
    env = envs.single("strict", strict=True)
    _, info = env.reset()
    terminated = truncated = False
    for action in (10**9, -1, "no", None, float("nan"), np.full(7, 3.0), 2**80):
        try:
            *_, terminated, truncated, info = env.step(action)
        except ActionError:
            envs.tally["actions refused"] += 1
        else:
            if terminated or truncated:
                return 1
    while not (terminated or truncated):
        *_, terminated, truncated, info = env.step(info["default_action"])
    return 1


def _ended_early(envs: Environments) -> int:
    env = envs.single("long-lived")
    env.reset()
    env.reset()
    envs.tally["reset during episodes"] += 1
    closed = envs.make()
    _, info = closed.reset()
    closed.step(info["default_action"])
    closed.close()
    abandoned = envs.make()
    abandoned.reset()
    del abandoned
    envs.tally["closed during episodes"] += 2
    envs.finish(env, env.reset()[1])
    return 1


SCENARIOS: dict[str, Callable[[Environments], int]] = {
    "long-lived": lambda envs: _episodes(envs, envs.single("long-lived")),
    "fresh": _fresh,
    "functions": lambda envs: _episodes(envs, envs.single("functions", scope="function")),
    "fork resets": _fork_resets,
    "forked": _forked,
    "lock step": lambda envs: _steps(envs, envs.vector("lock step"), 80),
    "send and receive": lambda envs: _steps(envs, envs.vector("send and receive", batch_size=2, prefetch=2), 80),
    "same step": lambda envs: _steps(envs, envs.vector("same step", autoreset_mode="SameStep"), 80),
    "fresh vector": _fresh_vector,
    "vector, a clang killed": _vector_killed,
    "killed": _killed,
    "bad modules": _bad_modules,
    "wrong actions": _wrong_actions,
    "ended early": _ended_early,
}
"""Ways to run episodes; each returns how many ended."""
