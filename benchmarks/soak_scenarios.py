"""Scenarios of a soak: ways to run episodes and to disturb them; an unexpected outcome raises."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import ActionError, CompilerError, CorpusError
from mlgo_gym.vector_env import CompilerVectorEnv, as_vector

CUT_OFF, DAMAGED = "cut-off", "damaged"
"""Names of the modules whose bitcode ends in the middle, and has an overwritten function."""

MAX_DECISIONS = 25
NUM_ENVS = 4
EPISODES = 8

Info = dict[str, Any]


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
        self.arguments: dict[str, Any] = {"corpus": corpus, "max_decisions": MAX_DECISIONS, "strict": False}
        self.allocates = "RegAlloc" in env_id
        self._singles: dict[str, CompilerEnv] = {}
        self._vectors: dict[str, CompilerVectorEnv] = {}

    def make(self, **arguments: Any) -> CompilerEnv:
        """Return a new environment without wrappers."""
        env = gym.make(self.env_id, **{**self.arguments, **arguments}).unwrapped
        assert isinstance(env, CompilerEnv)
        return env

    def make_vector(self, **arguments: Any) -> CompilerVectorEnv:
        """Return a new vector environment with started episodes."""
        envs = as_vector(gym.make_vec(self.env_id, NUM_ENVS, **{**self.arguments, **arguments}))
        envs.async_reset(seed=int(self.chance.integers(1 << 31)))
        return envs

    def single(self, name: str, **arguments: Any) -> CompilerEnv:
        """Return the long-lived environment of a name."""
        if name not in self._singles:
            self._singles[name] = self.make(**arguments)
        return self._singles[name]

    def vector(self, name: str, **arguments: Any) -> CompilerVectorEnv:
        """Return the long-lived vector environment of a name."""
        if name not in self._vectors:
            self._vectors[name] = self.make_vector(**arguments)
        return self._vectors[name]

    def action(self, env: CompilerEnv, info: Info) -> Any:
        """Return clang's own choice, a random legal action, or sometimes an illegal one."""
        kind = self.chance.random()
        if kind < 0.5:
            return info["default_action"]
        if kind < 0.98 and "action_mask" in info:
            return int(self.chance.choice(np.flatnonzero(info["action_mask"])))
        return env.action_space.sample()

    def finish(self, env: CompilerEnv, info: Info, *, default: bool = False) -> Info:
        """Run an episode to its end, perhaps by clang's own choices alone; return the last info."""
        terminated = truncated = False
        while not (terminated or truncated):
            action = info["default_action"] if default else self.action(env, info)
            *_, terminated, truncated, info = env.step(action)
            self.tally["illegal actions"] += bool(info.get("illegal_action"))
        if truncated:
            self.check_killed(info["error"])
        return info

    def check_killed(self, error: Info) -> None:
        """Check that an episode failed because this program killed a clang, which may have been any."""
        self.tally["truncated"] += 1
        if error["exit_status"] != -signal.SIGKILL or self.tally["truncated"] > self.tally["clangs killed"]:
            raise AssertionError(f"{self.env_id}: {error}")

    def kill(self, pid: int) -> None:
        """Kill a clang."""
        os.kill(pid, signal.SIGKILL)
        self.tally["clangs killed"] += 1

    def close(self) -> None:
        """Close all long-lived environments."""
        for env in self._singles.values():
            env.close()
        for envs in self._vectors.values():
            envs.close()
        self._singles.clear()
        self._vectors.clear()


def children_of(pid: int) -> list[int]:
    """Return the children of all threads of a process; none if it has ended."""
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, task.joinpath("children").read_text().split())
    except OSError:
        pass
    return found


def compilers() -> set[int]:
    """Return the children of this process that are compilers with a channel."""
    found = set()
    for child in children_of(os.getpid()):
        try:
            words = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"interactive-channel-base" in words:
            found.add(child)
    return found


def _episodes(envs: Environments, env: CompilerEnv) -> int:
    for _ in range(EPISODES):
        envs.finish(env, env.reset()[1])
    return EPISODES


def _fork_resets(envs: Environments) -> int:
    options = {"fork_resets": True, **({"preoptimize": False} if envs.allocates else {})}
    return _episodes(envs, envs.single("fork resets", compile_options=options))


def _fresh(envs: Environments) -> int:
    with closing(envs.make()) as env:
        envs.finish(env, env.reset(seed=int(envs.chance.integers(1 << 31)))[1])
    return 1


def _forked(envs: Environments) -> int:
    original = envs.single("long-lived")
    running: list[tuple[CompilerEnv, Info]] = [(original, original.reset()[1])]
    episodes = 0
    while running:
        env, info = running.pop(int(envs.chance.integers(len(running))))
        if len(running) < 3 and episodes < 3 and envs.chance.random() < 0.2:
            running.append((env.fork(), dict(info)))
            envs.tally["forks"] += 1
        *_, terminated, truncated, info = env.step(envs.action(env, info))
        if truncated:
            envs.check_killed(info["error"])
        if terminated or truncated:
            episodes += 1
        elif env is original or envs.chance.random() > 0.02:
            running.append((env, info))
            continue
        if env is not original:
            env.close()
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
    with closing(envs.make_vector()) as vector:
        envs.tally["closed during episodes"] += NUM_ENVS
        return _steps(envs, vector, int(envs.chance.integers(1, 30)))


def _vector_killed(envs: Environments) -> int:
    vector = envs.vector("lock step")
    episodes = _steps(envs, vector, 5)
    if running := compilers():
        envs.kill(int(envs.chance.choice(sorted(running))))
    return episodes + _steps(envs, vector, 40)


def _killed(envs: Environments) -> int:
    env = envs.single("killed", compile_options={"fork_resets": False})
    before = compilers()
    _, info = env.reset()
    (own,) = compilers() - before
    for _ in range(int(envs.chance.integers(3))):
        *_, terminated, _, info = env.step(info["default_action"])
        if terminated:
            return 1
    envs.kill(own)
    info = envs.finish(env, info, default=True)
    if not info.get("error") or info["error"]["kind"] != "signal":
        raise AssertionError(f"{envs.env_id}: expected an error after SIGKILL, got {info}")
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
            raise AssertionError(f"{envs.env_id}: expected an error for {module} bitcode, got an episode")
    envs.finish(env, env.reset()[1])
    return 1


def _wrong_actions(envs: Environments) -> int:
    env = envs.single("strict", strict=True)
    _, info = env.reset()
    for action in (10**9, -1, "no", None, float("nan"), np.full(7, 3.0), 2**80):
        try:
            *_, terminated, truncated, info = env.step(action)
        except ActionError:
            envs.tally["actions refused"] += 1
        else:
            if terminated or truncated:
                return 1
    envs.finish(env, info, default=True)
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
