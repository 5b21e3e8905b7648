"""What a soak plays: ways to run episodes, and ways to disturb them; each ends as an agent expects, or raises."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import ActionError, CompilerError, CorpusError
from mlgo_gym.vector_env import CompilerVectorEnv

CUT_OFF, DAMAGED = "cut-off", "damaged"
"""The modules whose bitcode ends in the middle, and has a function overwritten."""

MOST = 25
"""Decisions of an agent in an episode; clang takes the rest."""

WIDTH = 4
TURNS = 8


class SurpriseError(AssertionError):
    """An episode that went otherwise than it must."""


class Player:
    """The environments of one kind that live as long as a soak.

    Args:
        env_id: the registered id.
        corpus: the folder of modules.
        chance: draws actions, modules and faults.
        tally: counts what happened.
    """

    def __init__(self, env_id: str, corpus: str, chance: np.random.Generator, tally: Counter[str]) -> None:
        self.env_id = env_id
        self.chance = chance
        self.tally = tally
        self._options: dict[str, Any] = {"corpus": corpus, "max_decisions": MOST}
        self.has_functions = "Joint" not in env_id
        self.allocates = "RegAlloc" in env_id
        self._kept: dict[str, gym.Env[Any, Any] | gym.vector.VectorEnv[Any, Any, Any]] = {}

    def make(self, **options: Any) -> CompilerEnv:
        """Return a new environment, its wrappers taken off."""
        env = gym.make(self.env_id, **{**self._options, **options}).unwrapped
        assert isinstance(env, CompilerEnv)
        return env

    def single(self, name: str, **options: Any) -> CompilerEnv:
        """Return an environment that is kept under a name."""
        if name not in self._kept:
            self._kept[name] = self.make(**options)
        env = self._kept[name]
        assert isinstance(env, CompilerEnv)
        return env

    def vector(self, name: str, **options: Any) -> CompilerVectorEnv:
        """Return a vector environment that is kept under a name; it has begun."""
        if name not in self._kept:
            made = gym.make_vec(self.env_id, WIDTH, **{**self._options, **options})
            assert isinstance(made, CompilerVectorEnv)
            self._kept[name] = made
            made.async_reset(seed=int(self.chance.integers(1 << 31)))
        envs = self._kept[name]
        assert isinstance(envs, CompilerVectorEnv)
        return envs

    def action(self, env: CompilerEnv, info: dict[str, Any]) -> Any:
        """Return clang's own choice, or a random legal one, or now and then one that is illegal, but an action."""
        kind = self.chance.random()
        if kind < 0.5:
            return info["default_action"]
        if kind < 0.98 and "action_mask" in info:
            return int(self.chance.choice(np.flatnonzero(info["action_mask"])))
        return env.action_space.sample()

    def end(self, env: CompilerEnv, info: dict[str, Any]) -> dict[str, Any]:
        """Play an episode on to its end, and return the last info."""
        over = False
        truncated = False
        while not over:
            *_, terminated, truncated, info = env.step(self.action(env, info))
            self.tally["illegal actions"] += bool(info.get("illegal_action"))
            over = terminated or truncated
        if truncated:
            self.check_killed(info["error"])
        return info

    def check_killed(self, error: dict[str, Any]) -> None:
        """Check that an episode that failed did so because its clang was killed: here it is any clang's turn."""
        self.tally["truncated"] += 1
        if error["exit_status"] != -signal.SIGKILL or self.tally["truncated"] > self.tally["clangs killed"]:
            raise SurpriseError(f"{self.env_id}: {error}")

    def close(self) -> None:
        """Close everything that is kept."""
        for env in self._kept.values():
            env.close()
        self._kept.clear()


def _long_lived(player: Player) -> int:
    env = player.single("long-lived")
    for _ in range(TURNS):
        player.end(env, env.reset()[1])
    return TURNS


def _fresh(player: Player) -> int:
    env = player.make()
    player.end(env, env.reset(seed=int(player.chance.integers(1 << 31)))[1])
    env.close()
    return 1


def _functions(player: Player) -> int:
    env = player.single("functions", scope="function")
    for _ in range(TURNS):
        player.end(env, env.reset()[1])
    return TURNS


def _warm(player: Player) -> int:
    env = player.single("warm", **({"preoptimize": False} if player.allocates else {}), warm_resets=True)
    for _ in range(TURNS):
        player.end(env, env.reset()[1])
    return TURNS


def _forked(player: Player) -> int:
    env = player.single("long-lived")
    _, info = env.reset()
    going = [(env, info)]
    episodes = 0
    while going:
        each, info = going.pop(int(player.chance.integers(len(going))))
        if len(going) < 3 and episodes < 3 and player.chance.random() < 0.2:
            going.append((each.fork(), dict(info)))
            player.tally["forks"] += 1
        *_, terminated, truncated, info = each.step(player.action(each, info))
        if truncated:
            player.check_killed(info["error"])
        if terminated or truncated:
            episodes += 1
        elif each is env or player.chance.random() > 0.02:
            going.append((each, info))
            continue
        if each is not env:
            each.close()
    return episodes


def _steps(player: Player, envs: CompilerVectorEnv, count: int) -> int:
    """Play so many steps of a vector environment that has begun; return how many episodes ended."""
    episodes = 0
    for _ in range(count):
        _, _, terminated, truncated, infos = envs.recv()
        episodes += int((terminated | truncated).sum())
        for row in np.flatnonzero(truncated):
            final = infos.get("final_info", infos)
            player.check_killed({"exit_status": int(final["error"]["exit_status"][row])})
        actions = [envs.single_action_space.sample() for _ in terminated]
        defaults = infos.get("default_action")
        if defaults is not None and player.chance.random() < 0.8:
            actions = list(defaults)
        envs.send(np.asarray(actions))
    return episodes


def _lock_step(player: Player) -> int:
    return _steps(player, player.vector("lock step"), 80)


def _first_come(player: Player) -> int:
    return _steps(player, player.vector("first come", batch_size=2, prefetch=2), 80)


def _same_step(player: Player) -> int:
    return _steps(player, player.vector("same step", autoreset_mode="SameStep"), 80)


def _vector_killed(player: Player) -> int:
    envs = player.vector("lock step")
    episodes = _steps(player, envs, 5)
    _kill_one(player)
    return episodes + _steps(player, envs, 40)


def _fresh_vector(player: Player) -> int:
    envs = gym.make_vec(player.env_id, WIDTH, **player._options)
    assert isinstance(envs, CompilerVectorEnv)
    envs.async_reset(seed=int(player.chance.integers(1 << 31)))
    episodes = _steps(player, envs, int(player.chance.integers(1, 30)))
    envs.close()
    player.tally["closed in the middle"] += WIDTH
    return episodes


def _compilers() -> list[int]:
    """Return the living children of this process that are compilers with a channel."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        # Threads and compilers end while one looks.
        with suppress(OSError):
            for child in task.joinpath("children").read_text().split():
                with suppress(OSError):
                    if b"interactive-channel-base" in Path("/proc", child, "cmdline").read_bytes():
                        found.append(int(child))
    return found


def _kill_one(player: Player) -> None:
    compilers = _compilers()
    if compilers:
        os.kill(int(player.chance.choice(compilers)), signal.SIGKILL)
        player.tally["clangs killed"] += 1


def _killed(player: Player) -> int:
    env = player.single("killed", warm_resets=False)
    _, info = env.reset()
    for _ in range(int(player.chance.integers(3))):
        *_, terminated, truncated, info = env.step(info["default_action"])
        if terminated:
            return 1
    assert env._stepper is not None
    os.kill(env._stepper.episode.session.pid, signal.SIGKILL)
    player.tally["clangs killed"] += 1
    *_, terminated, truncated, info = env.step(info["default_action"])
    while not (terminated or truncated):
        *_, terminated, truncated, info = env.step(info["default_action"])
    if not truncated or info["error"]["kind"] != "signal":
        raise SurpriseError(f"{player.env_id}: killed, and it said {info}")
    player.check_killed(info["error"])
    player.end(env, env.reset()[1])
    return 2


def _bad_modules(player: Player) -> int:
    env = player.single("long-lived")
    for module in (CUT_OFF, DAMAGED):
        try:
            env.reset(options={"module": module})
        except (CompilerError, CorpusError):
            player.tally["modules refused"] += 1
        else:
            raise SurpriseError(f"{player.env_id}: bitcode that is {module} was compiled")
    player.end(env, env.reset()[1])
    return 1


def _wrong_actions(player: Player) -> int:
    env = player.single("strict", strict=True)
    _, info = env.reset()
    for action in (10**9, -1, "no", None, float("nan"), np.full(7, 3.0), 2**80):
        try:
            *_, terminated, truncated, info = env.step(action)
        except ActionError:
            player.tally["actions refused"] += 1
        else:
            if terminated or truncated:
                return 1
    over = False
    while not over:
        *_, terminated, truncated, info = env.step(info["default_action"])
        over = terminated or truncated
    return 1


def _left_early(player: Player) -> int:
    env = player.single("long-lived")
    env.reset()
    env.reset()
    player.tally["reset in the middle"] += 1
    other = player.make()
    _, info = other.reset()
    other.step(info["default_action"])
    other.close()
    abandoned = player.make()
    abandoned.reset()
    del abandoned  # nobody closes it
    player.tally["closed in the middle"] += 2
    player.end(env, env.reset()[1])
    return 1


@dataclass(frozen=True, slots=True)
class Play:
    """One way to play.

    Attributes:
        play: plays some episodes and returns how many have ended.
        fits: whether a kind of environment can be played so.
    """

    play: Callable[[Player], int]
    fits: Callable[[Player], bool] = lambda player: True  # noqa: ARG005 - all can


PLAYS = {
    "long-lived": Play(_long_lived),
    "fresh": Play(_fresh),
    "functions": Play(_functions, lambda player: player.has_functions),
    "warm": Play(_warm),
    "forked": Play(_forked),
    "lock step": Play(_lock_step),
    "first come": Play(_first_come),
    "same step": Play(_same_step),
    "fresh vector": Play(_fresh_vector),
    "vector, a clang killed": Play(_vector_killed),
    "killed": Play(_killed),
    "bad modules": Play(_bad_modules),
    "wrong actions": Play(_wrong_actions),
    "left early": Play(_left_early),
}
