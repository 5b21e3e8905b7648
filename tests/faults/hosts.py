"""Those who run a compiler: an environment, a vector environment, a fork, and `mlgo-clang`."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import mlgo_gym
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.vector_env import CompilerVectorEnv, as_vector
from tests.faults.catalogue import ENDS, Sight
from tests.mlgo_clang.conftest import DRIVERS

assert mlgo_gym

INLINE = "mlgo/Inline-v0"
SHORT, LONG = 0.6, 20.0
"""Seconds: for a compiler that stalls, and for one that works on a busy machine."""

FAULTY = {"module": "faulty"}


@dataclass(frozen=True)
class Place:
    """Where faults happen.

    Attributes:
        clang: the program that is a clang but for the module `faulty`.
        corpus: the folder with the modules `faulty` and `sound`, of the same bitcode.
        source: their source, as `faulty.c`.
    """

    clang: str
    corpus: str
    source: Path


def seen(error: MlgoError) -> Sight:
    """Return what an error says."""
    if isinstance(error, CompilerError):
        return Sight("reset", "CompilerError", error.kind, error.message, error.stderr)
    return Sight("reset", type(error).__name__, "", str(error))


def told(info: dict[str, Any]) -> Sight:
    """Return what the last info of an episode says."""
    if "error" not in info:
        assert info["text_size"] > 0
        return Sight(ENDS)
    error = info["error"]
    return Sight("step", "CompilerError", error["kind"], error["message"], error["stderr"])


def take_steps(env: CompilerEnv, info: dict[str, Any]) -> tuple[Sight, dict[str, Any]]:
    """Take clang's own choices until the end."""
    while True:
        *_, terminated, truncated, info = env.step(info["default_action"])
        if terminated or truncated:
            sight = told(info)
            assert truncated == (sight.where != ENDS)
            return sight, info


def patience(env: CompilerEnv | CompilerVectorEnv, seconds: float) -> None:
    """Set how long a compiler may be silent from the next episode on."""
    setup = env.setup if isinstance(env, CompilerEnv) else env._template.setup
    setup.settings = replace(setup.settings, timeout=seconds)


def make_single(place: Place) -> CompilerEnv:
    """Return an environment that uses the faulty clang."""
    env = gym.make(INLINE, corpus=place.corpus, clang=place.clang, timeout=LONG, disable_env_checker=True).unwrapped
    assert isinstance(env, CompilerEnv)
    return env


def make_vector(place: Place) -> CompilerVectorEnv:
    """Return two environments that use the faulty clang, and start nothing early."""
    return as_vector(gym.make_vec(INLINE, 2, corpus=place.corpus, clang=place.clang, timeout=LONG, prefetch=0))


def see_in_single(env: CompilerEnv) -> Sight:
    """Play an episode of the faulty module."""
    try:
        _, info = env.reset(options=FAULTY)
    except MlgoError as error:
        return seen(error)
    return take_steps(env, info)[0]


def see_in_fork(env: CompilerEnv, info: dict[str, Any]) -> Sight:
    """Fork an episode that waits with its first decision, and play the fork; the original must see the same."""
    try:
        twin = env.fork()
    except MlgoError as error:
        assert env.step(info["default_action"])[4]["decision"] == 1
        return seen(error)
    assert twin.fork_method == "snapshot", twin.fork_reason
    sight = take_steps(twin, info)[0]
    patience(twin, LONG)
    twin.reset(options={"module": "sound"})
    twin.close()
    assert take_steps(env, info)[0] == sight
    return sight


def see_in_vector(envs: CompilerVectorEnv) -> Sight:
    """Play the sound module beside the faulty one, which must not touch it."""
    try:
        _, info = envs.reset(options={"module": ["sound", "faulty"]})
    except MlgoError as error:
        assert error.env_id == 1  # noqa: PT017 - it need not raise
        sight = seen(error)
        return replace(sight, message=sight.message.removeprefix("environment 1: "))
    while True:
        *_, terminations, truncations, info = envs.step(info["default_action"])
        assert not truncations[0]
        if terminations[1] or truncations[1]:
            row = {"text_size": info["text_size"][1]} if "text_size" in info else {}
            if truncations[1]:
                row["error"] = {key: info["error"][key][1] for key in ("kind", "message", "exit_status", "stderr")}
            return told(row)


def sound_vector(envs: CompilerVectorEnv) -> None:
    """Play an episode in both environments."""
    _, info = envs.reset(options={"module": ["sound", "faulty"]})
    over = np.zeros(2, bool)
    while not over.any():
        *_, over, truncations, info = envs.step(info["default_action"])
        assert not truncations.any()
    assert len(set(info["text_size"].tolist())) == 1


def drive(place: Place, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `mlgo-clang` on the faulty source."""
    command = [str(DRIVERS["gcc"]), f"--mlgo-clang={place.clang}", *arguments, "-Oz", "-c", "faulty.c"]
    return subprocess.run(command, cwd=place.source.parent, capture_output=True, text=True, check=False, timeout=LONG)
